package pipeline

import (
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// most returns the highest count that the policies allow. Each policy counts from the count at the beginning of its period,
// which follows from the changes since. From 0 a percentage would never lead away, so that 1 is always allowed.
func (r *Rules) most(now time.Time, current int32, m *Memory) int32 {
	return r.limit(current, math.MaxInt32, func(p autoscalingv2.HPAScalingPolicy) int64 {
		start := m.at(now, current, p)
		if p.Type == autoscalingv2.PercentScalingPolicy {
			return max(divideUp(start*(100+int64(p.Value)), 100), int64(current), 1)
		}
		return max(start+int64(p.Value), int64(current))
	}, func(a, b int64) bool { return a > b })
}

// least returns the lowest count that the policies allow.
func (r *Rules) least(now time.Time, current int32, m *Memory) int32 {
	return r.limit(current, 0, func(p autoscalingv2.HPAScalingPolicy) int64 {
		start := m.at(now, current, p)
		if p.Type == autoscalingv2.PercentScalingPolicy {
			return min(start*max(100-int64(p.Value), 0)/100, int64(current))
		}
		return min(start-int64(p.Value), int64(current))
	}, func(a, b int64) bool { return a < b })
}

// limit selects among what the policies allow: the farthest from the present count, or with Min the nearest.
func (r *Rules) limit(current, none int32, allows func(autoscalingv2.HPAScalingPolicy) int64, farther func(a, b int64) bool) int32 {
	if r.SelectPolicy == autoscalingv2.DisabledPolicySelect {
		return current
	}
	if len(r.Policies) == 0 {
		return none
	}
	selected := allows(r.Policies[0])
	for _, p := range r.Policies[1:] {
		if x := allows(p); farther(x, selected) != (r.SelectPolicy == autoscalingv2.MinChangePolicySelect) {
			selected = x
		}
	}
	return int32(min(max(selected, 0), math.MaxInt32))
}

// at returns the count at the beginning of a policy's period.
func (m *Memory) at(now time.Time, current int32, p autoscalingv2.HPAScalingPolicy) int64 {
	period := time.Duration(p.PeriodSeconds) * time.Second
	return max(int64(current)-sum(m.ups, now, period)+sum(m.downs, now, period), 0)
}

func divideUp(a, b int64) int64 { return (a + b - 1) / b }
