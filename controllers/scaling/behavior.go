package scaling

import (
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// upLimit is the most pods that the policies allow now, by the arithmetic of
// the HorizontalPodAutoscaler: each policy allows a change from where the count
// stood a period ago.
func upLimit(rules *autoscalingv2.HPAScalingRules, current int, events []Event, now time.Time) int {
	if rules == nil {
		return math.MaxInt
	}
	if selects(rules, autoscalingv2.DisabledPolicySelect) {
		return current
	}
	least := selects(rules, autoscalingv2.MinChangePolicySelect)
	limit, found := 0, false
	for _, policy := range rules.Policies {
		before := float64(atPeriodStart(policy, current, events, now))
		allowed := before + float64(policy.Value)
		if policy.Type == autoscalingv2.PercentScalingPolicy {
			// Rounded up, or a small count could never grow.
			allowed = math.Ceil(before * (1 + float64(policy.Value)/100))
		}
		if n := int(allowed); !found || least == (n < limit) {
			limit, found = n, true
		}
	}
	if !found {
		return math.MaxInt
	}
	return max(limit, current)
}

// downLimit is the fewest pods that the policies allow now.
func downLimit(rules *autoscalingv2.HPAScalingRules, current int, events []Event, now time.Time) int {
	if rules == nil {
		return 0
	}
	if selects(rules, autoscalingv2.DisabledPolicySelect) {
		return current
	}
	least := selects(rules, autoscalingv2.MinChangePolicySelect)
	limit, found := 0, false
	for _, policy := range rules.Policies {
		before := float64(atPeriodStart(policy, current, events, now))
		allowed := before - float64(policy.Value)
		if policy.Type == autoscalingv2.PercentScalingPolicy {
			allowed = math.Trunc(before * (1 - float64(policy.Value)/100))
		}
		if n := int(allowed); !found || least == (n > limit) {
			limit, found = n, true
		}
	}
	return min(max(limit, 0), current)
}

func selects(rules *autoscalingv2.HPAScalingRules, policy autoscalingv2.ScalingPolicySelect) bool {
	return rules.SelectPolicy != nil && *rules.SelectPolicy == policy
}

// atPeriodStart undoes the changes within the policy's period.
func atPeriodStart(policy autoscalingv2.HPAScalingPolicy, current int, events []Event, now time.Time) int {
	cutoff := now.Add(-seconds(policy.PeriodSeconds))
	for _, e := range events {
		if e.At.After(cutoff) {
			current -= e.Change
		}
	}
	return current
}

// longestPeriod is how long changes have to be remembered.
func longestPeriod(all ...*autoscalingv2.HPAScalingRules) time.Duration {
	var longest time.Duration
	for _, rules := range all {
		if rules == nil {
			continue
		}
		for _, policy := range rules.Policies {
			longest = max(longest, seconds(policy.PeriodSeconds))
		}
	}
	return longest
}

func window(rules *autoscalingv2.HPAScalingRules) time.Duration {
	if rules == nil {
		return 0
	}
	return seconds(orZero(rules.StabilizationWindowSeconds))
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
