package simulator

import (
	"maps"
	"slices"

	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
)

// pinned is what the pins together ask of one pod.
type pinned struct {
	values map[string]float64
	absent map[string]bool
	fault  api.Fault
}

// pins are the pins in force, oldest first. A given selector and metric occur at most once.
type pins []api.Pin

// add puts a pin behind the others and takes what it replaces from earlier pins with the same selector.
func (ps pins) add(pin api.Pin) pins {
	kept := make(pins, 0, len(ps)+1)
	for _, old := range ps {
		if sameSelector(old, api.Selector{Namespace: pin.Namespace, Labels: pin.Labels}) {
			old = without(old, pin)
			if len(old.Metrics) == 0 && len(old.Absent) == 0 && old.Fault == "" {
				continue
			}
		}
		kept = append(kept, old)
	}
	return append(kept, pin)
}

// remove takes away the pins with the selector and returns how many there were.
func (ps pins) remove(selector api.Selector) (pins, int) {
	kept := slices.DeleteFunc(slices.Clone(ps), func(p api.Pin) bool { return sameSelector(p, selector) })
	return kept, len(ps) - len(kept)
}

// on resolves the pins for a pod.
func (ps pins) on(pod Pod) pinned {
	resolved := pinned{fault: api.FaultNone}
	for _, pin := range ps {
		if !selects(pin, pod) {
			continue
		}
		if resolved.values == nil {
			resolved.values, resolved.absent = map[string]float64{}, map[string]bool{}
		}
		for name, value := range pin.Metrics {
			resolved.values[name] = float64(value)
			delete(resolved.absent, name)
		}
		for _, name := range pin.Absent {
			resolved.absent[name] = true
			delete(resolved.values, name)
		}
		if pin.Fault != "" {
			resolved.fault = pin.Fault
		}
	}
	return resolved
}

func selects(pin api.Pin, pod Pod) bool {
	return pin.Namespace == pod.Namespace && hasLabels(pod.Labels, pin.Labels)
}

func sameSelector(p api.Pin, s api.Selector) bool {
	return p.Namespace == s.Namespace && maps.Equal(p.Labels, s.Labels)
}

// without returns old less everything that newer also decides. The maps and slices of old stay as they are.
func without(old, newer api.Pin) api.Pin {
	decided := func(name string) bool {
		_, held := newer.Metrics[name]
		return held || slices.Contains(newer.Absent, name)
	}
	old.Metrics = maps.Clone(old.Metrics)
	maps.DeleteFunc(old.Metrics, func(name string, _ api.Value) bool { return decided(name) })
	old.Absent = slices.DeleteFunc(slices.Clone(old.Absent), decided)
	if newer.Fault != "" {
		old.Fault = ""
	}
	return old
}

func hasLabels(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}
