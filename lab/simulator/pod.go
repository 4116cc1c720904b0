package simulator

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ModelNameKey is the annotation, or else the label, of a pod that names the model in its metrics.
const ModelNameKey = "simulator.pd-orchestrator.io/model-name"

// Pod is what the simulator knows of a pod.
type Pod struct {
	UID       string
	Namespace string
	Name      string
	Labels    map[string]string
	// Address is the pod's IPv4 address; the zero Addr before it has one.
	Address netip.Addr
	// Ports are the TCP ports that the pod's containers declare, ascending.
	Ports []int32
	// Running is true while the pod's containers run and its metrics endpoint answers.
	Running bool
	// Ready is true while the pod takes new requests: Running, with condition Ready and not being deleted.
	Ready bool
	// ModelName is the label model_name of the pod's metrics.
	ModelName string
	// Created orders pods that have had the same address: seconds since the epoch.
	Created int64
}

// podOf reads from a Kubernetes pod what the simulator needs. It keeps no reference to the pod but to its labels.
func podOf(p *corev1.Pod) Pod {
	pod := Pod{
		UID:       string(p.UID),
		Namespace: p.Namespace,
		Name:      p.Name,
		Labels:    p.Labels,
		Running:   p.Status.Phase == corev1.PodRunning,
		ModelName: modelName(p),
		Created:   p.CreationTimestamp.Unix(),
	}
	if address, err := netip.ParseAddr(p.Status.PodIP); err == nil {
		pod.Address = address
	}
	pod.Ready = pod.Running && p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			for _, port := range containers[i].Ports {
				if port.Protocol == corev1.ProtocolTCP || port.Protocol == "" {
					pod.Ports = append(pod.Ports, port.ContainerPort)
				}
			}
		}
	}
	slices.Sort(pod.Ports)
	pod.Ports = slices.Compact(pod.Ports)
	return pod
}

func modelName(p *corev1.Pod) string {
	for _, source := range []map[string]string{p.Annotations, p.Labels} {
		if name := strings.TrimSpace(source[ModelNameKey]); name != "" {
			return name
		}
	}
	return defaultModelName
}

// podAddress returns the address of the pod that is meant by a connection to a loopback address: 127.b.c.d stands for
// 10.b.c.d. ok is false for addresses outside 127.0.0.0/8 and for 127.0.0.0/16, which is the host's own.
func podAddress(local netip.Addr) (address netip.Addr, ok bool) {
	local = local.Unmap()
	if !local.Is4() || !local.IsLoopback() {
		return netip.Addr{}, false
	}
	octets := local.As4()
	if octets[1] == 0 {
		return netip.Addr{}, false
	}
	octets[0] = 10
	return netip.AddrFrom4(octets), true
}

// localAddressOf is the reverse of podAddress.
func localAddressOf(address netip.Addr) (local netip.Addr, ok bool) {
	if !address.Is4() {
		return netip.Addr{}, false
	}
	octets := address.As4()
	octets[0] = 127
	local = netip.AddrFrom4(octets)
	back, ok := podAddress(local)
	return local, ok && back == address
}
