package groups

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func clone(id int32) Group { return Group{ID: id} }

func TestMake(t *testing.T) {
	atZero := Group{ID: 0, AtZero: true}
	cases := map[string]struct {
		facts Facts
		want  Plan
	}{
		"settled: nothing to do": {
			facts: Facts{Desired: 2, Groups: []Group{clone(0), clone(1)}, CanCreate: true, CanRecover: true},
			want:  Plan{Candidates: []Group{clone(0), clone(1)}},
		},
		"scale up fills the lowest free ids": {
			facts: Facts{Desired: 5, Groups: []Group{clone(0), clone(2)}, CanCreate: true},
			want:  Plan{Create: []int32{1, 3, 4}, Candidates: []Group{clone(0), clone(2)}},
		},
		"group 0 comes back before anything is cloned": {
			facts: Facts{Desired: 2, Groups: []Group{atZero}, CanCreate: true, CanRecover: true},
			want:  Plan{Recover: true, Create: []int32{1}},
		},
		"without a baseline neither is made": {
			facts: Facts{Desired: 2, Groups: []Group{atZero}},
			want:  Plan{},
		},
		"a terminating group keeps its id": {
			facts: Facts{Desired: 2, Groups: []Group{clone(0), {ID: 1, Terminating: true, Touched: true}}, CanCreate: true},
			want:  Plan{Create: []int32{2}, Candidates: []Group{clone(0)}},
		},
		"a half-made group is finished under its id": {
			facts: Facts{Desired: 2, Groups: []Group{clone(0), {ID: 1, Missing: []string{"decode"}}}, CanCreate: true},
			want:  Plan{Finish: []int32{1}, Candidates: []Group{clone(0), {ID: 1, Missing: []string{"decode"}}}},
		},
		"a half-made group of an earlier snapshot is made anew": {
			facts: Facts{Desired: 2, Groups: []Group{clone(0), {ID: 1, Missing: []string{"decode"}, Outdated: true}}, CanCreate: true},
			want:  Plan{Discard: []int32{1}, Create: []int32{2}, Candidates: []Group{clone(0)}},
		},
		"which is no victim's place": {
			facts: Facts{Desired: 2, Groups: []Group{clone(0), {ID: 1, Missing: []string{"decode"}, Outdated: true}, clone(2)}, CanCreate: true},
			want:  Plan{Discard: []int32{1}, Candidates: []Group{clone(0), clone(2)}},
		},
		"and stays while none can be made": {
			facts: Facts{Desired: 2, Groups: []Group{clone(0), {ID: 1, Missing: []string{"decode"}, Outdated: true}}},
			want:  Plan{Candidates: []Group{clone(0), {ID: 1, Missing: []string{"decode"}, Outdated: true}}},
		},
		"a victim of an earlier snapshot stays a victim": {
			facts: Facts{Desired: 1, Groups: []Group{clone(0), {ID: 1, Missing: []string{"decode"}, Outdated: true, Touched: true}}, Victims: []int32{1}, CanCreate: true},
			want:  Plan{Remove: []int32{1}, Candidates: []Group{clone(0)}},
		},
		"too many groups: victims are due": {
			facts: Facts{Desired: 1, Groups: []Group{clone(0), clone(1), clone(2)}, CanCreate: true},
			want:  Plan{Excess: 2, Candidates: []Group{clone(0), clone(1), clone(2)}},
		},
		"victims on record are removed, not chosen anew": {
			facts: Facts{Desired: 1, Groups: []Group{clone(0), clone(1), clone(2)}, Victims: []int32{2, 0}, CanCreate: true},
			want:  Plan{Remove: []int32{2, 0}, Candidates: []Group{clone(1)}},
		},
		"a further scale-down adds victims": {
			facts: Facts{Desired: 1, Groups: []Group{clone(0), clone(1), clone(2)}, Victims: []int32{2}, CanCreate: true},
			want:  Plan{Remove: []int32{2}, Excess: 1, Candidates: []Group{clone(0), clone(1)}},
		},
		"an untouched victim is spared when more are wanted": {
			facts: Facts{Desired: 2, Groups: []Group{clone(0), clone(1), clone(2)}, Victims: []int32{2, 1}, CanCreate: true},
			want:  Plan{Remove: []int32{2}, Spared: []int32{1}, Candidates: []Group{clone(0), clone(1)}},
		},
		"a half-removed victim is not": {
			facts: Facts{Desired: 2, Groups: []Group{clone(0), {ID: 1, Touched: true, Missing: []string{"decode"}}}, Victims: []int32{1}, CanCreate: true},
			want:  Plan{Remove: []int32{1}, Create: []int32{2}, Candidates: []Group{clone(0)}},
		},
		"group 0 on its way to zero turns back": {
			facts: Facts{Desired: 1, Groups: []Group{{ID: 0, Touched: true}}, Victims: []int32{0}, CanCreate: true, CanRecover: true},
			want:  Plan{Spared: []int32{0}, Candidates: []Group{{ID: 0, Touched: true}}},
		},
		"without base workloads clones alone are made": {
			facts: Facts{Desired: 1, Groups: []Group{{ID: 0, Empty: true, Missing: []string{"prefill"}}}, CanCreate: true},
			want:  Plan{Create: []int32{1}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Make(tc.facts)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// A world in which every plan is carried out at once, with faults thrown in, must reach the desired count and keep it.
func TestMakeConverges(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		world := map[int32]Group{0: {ID: 0}}
		var victims []int32
		for range 12 {
			desired := rng.Int32N(8)
			for step := 0; ; step++ {
				if step > 20 {
					t.Fatalf("seed %d: no rest after %d steps: desired %d, world %v, victims %v", seed, step, desired, world, victims)
				}
				f := Facts{Desired: desired, Victims: victims, CanCreate: true, CanRecover: true}
				for _, g := range world {
					f.Groups = append(f.Groups, g)
				}
				slices.SortFunc(f.Groups, func(a, b Group) int { return int(a.ID - b.ID) })
				p := Make(f)
				if len(p.Create)+len(p.Finish)+len(p.Discard)+len(p.Remove)+len(p.Spared)+p.Excess == 0 && !p.Recover {
					break
				}
				if p.Excess > 0 && len(p.Create) > 0 {
					t.Fatalf("seed %d: creates %v and removes %d in one step", seed, p.Create, p.Excess)
				}
				victims = p.Remove
				for i := range p.Excess {
					victims = append(victims, p.Candidates[len(p.Candidates)-1-i].ID)
				}
				for _, id := range p.Create {
					if _, exists := world[id]; exists {
						t.Fatalf("seed %d: id %d is in use and was given out", seed, id)
					}
					g := Group{ID: id}
					if rng.IntN(4) == 0 {
						g.Missing, g.Outdated = []string{"x"}, rng.IntN(2) == 0
					}
					world[id] = g
				}
				for _, id := range p.Discard {
					delete(world, id)
				}
				for _, id := range p.Finish {
					world[id] = Group{ID: id}
				}
				if p.Recover {
					world[0] = Group{ID: 0}
				}
				if step == 0 && rng.IntN(3) == 0 {
					continue // The process died between recording the victims and removing them.
				}
				for _, id := range victims {
					if id == 0 {
						world[0] = Group{ID: 0, AtZero: true}
					} else {
						delete(world, id)
					}
				}
				victims = nil
			}
			living := int32(0)
			for _, g := range world {
				if g.Complete() {
					living++
				}
			}
			if living != desired {
				t.Fatalf("seed %d: %d groups at rest, want %d: %v", seed, living, desired, world)
			}
		}
	}
}
