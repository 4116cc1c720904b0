package groups

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestObserveBase(t *testing.T) {
	up := Member{Target: "a", Object: "Deployment a", Exists: true, Desired: 2, Available: 2}
	away := Member{Target: "b", Object: "Deployment b", Exists: true, Marked: true, Baseline: 3}
	cases := map[string]struct {
		members []Member
		want    Group
	}{
		"running":                       {[]Member{up}, Group{}},
		"all scaled away":               {[]Member{away, away}, Group{AtZero: true, Touched: true}},
		"half scaled away still counts": {[]Member{up, away}, Group{Touched: true}},
		"set to 0 by somebody else":     {[]Member{{Target: "a", Exists: true}}, Group{}},
		"marked but brought back":       {[]Member{{Target: "a", Exists: true, Marked: true, Desired: 1}}, Group{Touched: true}},
		"one count unknown":             {[]Member{up, {Target: "b", Exists: true, Unknown: true}}, Group{AtZero: true}},
		"one missing":                   {[]Member{up, {Target: "b", Object: "Deployment b"}}, Group{Missing: []string{"Deployment b"}}},
		"none there":                    {[]Member{{Target: "b", Object: "Deployment b"}}, Group{Missing: []string{"Deployment b"}, Empty: true}},
		"being deleted":                 {[]Member{{Target: "a", Exists: true, Terminating: true, Desired: 1}}, Group{Terminating: true, Touched: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.want.Members = tc.members
			if diff := cmp.Diff(tc.want, ObserveBase(tc.members)); diff != "" {
				t.Errorf("group (-want +got):\n%s", diff)
			}
		})
	}
}

func TestObserveClone(t *testing.T) {
	here := Member{Target: "a", Object: "Deployment a", Exists: true, Desired: 1, Available: 1, Revision: "r2"}
	older := func(m Member) Member { m.Revision = "r1"; return m }
	gone := Member{Target: "b", Object: "Deployment b"}
	cases := map[string]struct {
		members  []Member
		services []Service
		want     Group
	}{
		"whole":                         {[]Member{here}, []Service{{Name: "s", Exists: true}}, Group{ID: 4}},
		"without a Service":             {[]Member{here}, []Service{{Name: "s"}}, Group{ID: 4, Missing: []string{"Service s"}, Touched: true}},
		"half":                          {[]Member{here, gone}, nil, Group{ID: 4, Missing: []string{"Deployment b"}, Touched: true}},
		"only its Service":              {[]Member{gone}, []Service{{Name: "s", Exists: true}}, Group{ID: 4, Missing: []string{"Deployment b"}, Drained: true, Touched: true}},
		"a Service going":               {[]Member{here}, []Service{{Name: "s", Exists: true, Terminating: true}}, Group{ID: 4, Terminating: true, Touched: true}},
		"whole, of an earlier snapshot": {[]Member{older(here)}, nil, Group{ID: 4}},
		"half, of an earlier snapshot": {
			[]Member{older(here), gone}, nil, Group{ID: 4, Missing: []string{"Deployment b"}, Touched: true, Outdated: true},
		},
		"half, of two snapshots": {
			[]Member{here, gone}, []Service{{Name: "s", Exists: true, Revision: "r1"}},
			Group{ID: 4, Missing: []string{"Deployment b"}, Touched: true, Outdated: true},
		},
		"half, of it does not say which": {
			[]Member{{Target: "a", Object: "Deployment a", Exists: true}, gone}, nil, Group{ID: 4, Missing: []string{"Deployment b"}, Touched: true},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.want.Members = tc.members
			if diff := cmp.Diff(tc.want, ObserveClone(4, tc.members, tc.services, "r2")); diff != "" {
				t.Errorf("group (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecideBaselines(t *testing.T) {
	running := Member{Target: "a", Exists: true, Desired: 3}
	cases := map[string]struct {
		recorded map[string]string
		base     []Member
		want     Baselines
	}{
		"the first time, from the base": {nil, []Member{running}, Baselines{Counts: map[string]int32{"a": 3}, Add: map[string]string{"a": "3"}}},
		"what is recorded stands":       {map[string]string{"a": "7"}, []Member{running}, Baselines{Counts: map[string]int32{"a": 7}}},
		"the annotation before the present count": {
			nil, []Member{{Target: "a", Exists: true, Marked: true, Baseline: 5}}, Baselines{Counts: map[string]int32{"a": 5}, Add: map[string]string{"a": "5"}},
		},
		"never 0":                             {nil, []Member{{Target: "a", Exists: true}}, Baselines{Unknown: []string{"a"}}},
		"not from a base that does not exist": {nil, []Member{{Target: "a", Desired: 1}}, Baselines{Unknown: []string{"a"}}},
		"what is no count is not replaced": {
			map[string]string{"a": "x", "b": "-1", "c": "0", "d": "2147483648", "e": ""},
			[]Member{running, {Target: "b"}, {Target: "c"}, {Target: "d"}, {Target: "e"}},
			Baselines{Invalid: []string{
				`data["a"] is "x": must be a whole number from 1 to 2147483647, for example "2"`,
				`data["b"] is "-1": must be a whole number from 1 to 2147483647, for example "2"`,
				`data["c"] is "0": must be a whole number from 1 to 2147483647, for example "2"`,
				`data["d"] is "2147483648": must be a whole number from 1 to 2147483647, for example "2"`,
				`data["e"] is "": must be a whole number from 1 to 2147483647, for example "2"`,
			}},
		},
		"blanks do not matter": {map[string]string{"a": " 2\n"}, []Member{running}, Baselines{Counts: map[string]int32{"a": 2}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.want.Counts == nil {
				tc.want.Counts = map[string]int32{}
			}
			if tc.want.Add == nil {
				tc.want.Add = map[string]string{}
			}
			if diff := cmp.Diff(tc.want, DecideBaselines(tc.recorded, tc.base)); diff != "" {
				t.Errorf("baselines (-want +got):\n%s", diff)
			}
		})
	}
}
