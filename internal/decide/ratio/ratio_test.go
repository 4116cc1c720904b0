package ratio

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

func TestFollow(t *testing.T) {
	cases := map[string]struct {
		leader int32
		ratio  intstr.IntOrString
		want   int32
		err    string
	}{
		"the document's worker":           {3, intstr.FromInt32(2), 6, ""},
		"the document's sidecar":          {3, intstr.FromInt32(1), 3, ""},
		"a fraction is rounded up":        {3, intstr.FromString("1.5"), 5, ""},
		"exactly, not in binary":          {100, intstr.FromString("0.07"), 7, ""},
		"three decimals":                  {1000, intstr.FromString("0.001"), 1, ""},
		"the least that is left is one":   {1, intstr.FromString("0.001"), 1, ""},
		"a leader of 0 gives 0":           {0, intstr.FromString("0.5"), 0, ""},
		"a quoted integer":                {4, intstr.FromString("3"), 12, ""},
		"the largest that fits":           {2147483647, intstr.FromInt32(1), 2147483647, ""},
		"a product beyond a count":        {1 << 30, intstr.FromInt32(8), 0, "1073741824 x 8"},
		"a fraction that just passes it":  {2147483647, intstr.FromString("1.001"), 0, "at most 2147483647"},
		"0 is no ratio":                   {1, intstr.FromInt32(0), 0, `"0"`},
		"0.0 neither":                     {1, intstr.FromString("0.0"), 0, `"0.0"`},
		"a negative one neither":          {1, intstr.FromInt32(-2), 0, `"-2"`},
		"four decimals are too many":      {1, intstr.FromString("0.0001"), 0, "three decimals"},
		"an exponent is no decimal":       {1, intstr.FromString("1e3"), 0, "1e3"},
		"a fraction of integers is none":  {1, intstr.FromString("1/2"), 0, "1/2"},
		"more than a thousand is refused": {1, intstr.FromString("1000.001"), 0, "1000.001"},
		"words are refused":               {1, intstr.FromString("two"), 0, "two"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := Parse(tc.ratio)
			var got int32
			if err == nil {
				got, err = Follow(tc.leader, r)
			}
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("%d, %v; want an error with %q", got, err, tc.err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("%d, %v; want %d", got, err, tc.want)
			}
		})
	}
}

func FuzzFollow(f *testing.F) {
	f.Add(int32(3), "1.5")
	f.Fuzz(func(t *testing.T, leader int32, text string) {
		r, err := Parse(intstr.FromString(text))
		if err != nil || leader < 0 {
			return
		}
		got, err := Follow(leader, r)
		if err != nil {
			return
		}
		// got is the least count whose quotient reaches the ratio.
		if exact, _ := r.Float64(); float64(got) < float64(leader)*exact-1e-3 || float64(got) >= float64(leader)*exact+1+1e-3 {
			t.Errorf("%d x %s is %d", leader, text, got)
		}
		if leader > 0 {
			if less, err := Follow(leader-1, r); err != nil || less > got {
				t.Errorf("a smaller leader gives more: %d x %s is %d, %d x it is %d", leader, text, got, leader-1, less)
			}
		}
	})
}

func TestMake(t *testing.T) {
	config := v1alpha1.LeaderFollowerConfig{
		Leader: v1alpha1.Leader{ResourceName: "scheduler", Replicas: ptr.To(int32(3))},
		Follower: []v1alpha1.Follower{
			{ResourceName: "worker", FollowRatio: intstr.FromInt32(2)},
			{ResourceName: "broken", FollowRatio: intstr.FromString("x")},
			{ResourceName: "sidecar", FollowRatio: intstr.FromString("0.5")},
			{ResourceName: "scheduler", FollowRatio: intstr.FromInt32(7)},
		},
	}
	problems := []string{`follower "broken": followRatio is "x": must be an integer from 1 to 1000, or a quoted decimal above 0 and at most 1000 with at most three decimals, for example "0.5"`, `follower "scheduler": is the leader, which does not follow itself`}
	free := *config.DeepCopy()
	free.Leader.Replicas = nil
	cases := map[string]struct {
		config v1alpha1.LeaderFollowerConfig
		live   map[string]*int32
		want   Plan
	}{
		"the spec's count stands, whatever is live": {config, map[string]*int32{"scheduler": ptr.To(int32(9))},
			Plan{Leader: ptr.To(int32(3)), Desired: map[string]int32{"scheduler": 3, "worker": 6, "sidecar": 2}, Problems: problems}},
		"without one the live count is followed, and not written": {free, map[string]*int32{"scheduler": ptr.To(int32(5))},
			Plan{Leader: ptr.To(int32(5)), Desired: map[string]int32{"worker": 10, "sidecar": 3}, Problems: problems}},
		"a leader that is not there leaves everybody alone": {free, nil, Plan{Desired: map[string]int32{}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Make(tc.config, tc.live)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}
