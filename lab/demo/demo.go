// Package demo plays the story of a ResourceScalingGroup on a lab: a prefill/decode group is replicated, scaled down by
// live metrics and without them, taken to zero and back, and let go. Every step is checked against what the cluster and
// Prometheus hold, and the story ends at the first thing that is not as it says.
package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/client"
)

// Lab is the running lab that the story is played on, with the product's CRDs and manager in it.
type Lab interface {
	// Config is that of an administrator.
	Config() *rest.Config
	// PrometheusURL and SimulatorURL are the base URLs of the two.
	PrometheusURL() string
	SimulatorURL() string
	// StopPart and StartPart stop and start one process of the lab.
	StopPart(ctx context.Context, name string) error
	StartPart(ctx context.Context, name string) error
	// Log returns the last lines of a process' log.
	Log(name string, lines int) (string, error)
}

// Options of a performance.
type Options struct {
	// Screen shows it.
	Screen *Screen
	// Pause is called after each step; nil goes on at once.
	Pause func(ctx context.Context) error
	// Resume plays a last part after the story, which leaves the groups managed and under load.
	Resume bool
}

// Took is how long one step took.
type Took struct {
	Step string
	Time time.Duration
}

// Play plays the story and returns how long its steps took. The error names the step, and what was not as it should be.
func Play(ctx context.Context, on Lab, options Options) ([]Took, error) {
	p, err := newPlayer(on, options.Screen)
	if err != nil {
		return nil, err
	}
	steps := story()
	if options.Resume {
		steps = append(steps, step{name: "resume", title: "the ResourceScalingGroup comes back, for you to look at", play: (*player).resume})
	}
	var took []Took
	for i, s := range steps {
		p.screen.Heading("Step %d of %d: %s", i+1, len(steps), s.title)
		started := time.Now()
		err := s.play(p, ctx)
		took = append(took, Took{Step: fmt.Sprintf("%d %s", i+1, s.name), Time: time.Since(started)})
		if err != nil {
			if ctx.Err() == nil {
				p.explain()
			}
			return took, fmt.Errorf("step %d (%s): %w", i+1, s.name, err)
		}
		if options.Pause != nil && i < len(steps)-1 {
			if err := options.Pause(ctx); err != nil {
				return took, err
			}
		}
	}
	return took, nil
}

// step is one part of the story.
type step struct {
	name  string
	title string
	play  func(p *player, ctx context.Context) error
}

// player has the means to act, and to look.
type player struct {
	lab        Lab
	screen     *Screen
	kube       kubernetes.Interface
	dynamic    dynamic.Interface
	prometheus prometheus
	simulator  *client.Client
}

// requestTimeout bounds one request to Prometheus or the simulator.
const requestTimeout = 5 * time.Second

func newPlayer(on Lab, screen *Screen) (*player, error) {
	clientset, err := kubernetes.NewForConfig(on.Config())
	if err != nil {
		return nil, fmt.Errorf("connecting to the lab: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(on.Config())
	if err != nil {
		return nil, fmt.Errorf("connecting to the lab: %w", err)
	}
	web := &http.Client{Timeout: requestTimeout}
	return &player{
		lab: on, screen: screen, kube: clientset, dynamic: dynamicClient,
		prometheus: prometheus{url: on.PrometheusURL(), http: web},
		simulator:  client.New(on.SimulatorURL(), web),
	}, nil
}

const (
	// lookInterval is the time between two looks at the cluster.
	lookInterval = 200 * time.Millisecond
	// patience is how long a step may take; a busy machine needs far less.
	patience = 90 * time.Second
	// impatience is the time between two lines that say what is waited for.
	impatience = 5 * time.Second
)

// expect looks until all claims hold at once, says so, and returns what it saw then.
func (p *player) expect(ctx context.Context, claims ...claim) (*view, error) {
	started := time.Now()
	mention := started.Add(impatience)
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		v, err := p.look(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var open []string
		var reasons []string
		if err != nil {
			reasons = append(reasons, err.Error())
		} else {
			for _, c := range claims {
				if reason := c.missing(v); reason != "" {
					open = append(open, c.text)
					reasons = append(reasons, reason)
				}
			}
		}
		if len(reasons) == 0 {
			for _, c := range claims {
				p.screen.holds(c.text)
			}
			return v, nil
		}
		now := time.Now()
		if now.Sub(started) > patience {
			return nil, p.unfulfilled(open, reasons)
		}
		if now.After(mention) {
			p.screen.aside("waiting for %.0f s: %s", now.Sub(started).Seconds(), reasons[0])
			mention = mention.Add(impatience)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func (p *player) unfulfilled(open, reasons []string) error {
	if len(open) == 0 {
		return fmt.Errorf("after %s the cluster cannot be read: %s", patience, reasons[0])
	}
	for i := range open {
		p.screen.fails(open[i], reasons[i])
	}
	return fmt.Errorf("after %s this does not hold: %s: %s", patience, open[0], reasons[0])
}

// explainTimeout bounds what is done after a failure.
const explainTimeout = 5 * time.Second

// explain shows what there is when a step has failed. The step's context may be over.
func (p *player) explain() {
	ctx, cancel := context.WithTimeout(context.Background(), explainTimeout)
	defer cancel()
	v, err := p.look(ctx)
	if err == nil {
		p.show(v)
		for _, e := range v.events {
			p.screen.aside("event %s %s: %s", e.Type, e.Reason, e.Note)
		}
	}
	text, logErr := p.lab.Log(lab.Manager, 15)
	if logErr == nil {
		p.screen.aside("the end of the manager's log:")
		p.screen.Say("%s", text)
	}
	if err := errors.Join(err, logErr); err != nil {
		p.screen.aside("no more is known: %v", err)
	}
}

// show prints the table of groups.
func (p *player) show(v *view) { p.screen.table(renderTable(v.table())) }

// showEvent prints an event as it is.
func (p *player) showEvent(kind, note string) {
	p.screen.result("%s", strings.Join(wrap(kind+": "+note, textWidth), "\n     "))
}

// textWidth is where long texts of the cluster are broken.
const textWidth = 110
