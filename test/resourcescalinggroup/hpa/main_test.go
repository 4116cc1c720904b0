// Package hpa tests ResourceScalingGroups that Kubernetes' own HPA controller scales: with its usual period of 15 s, by
// the usage that metrics-server reads from simulated pods, and by an external metric.
package hpa

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/test/externalmetrics"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

var (
	env      *rsgtest.Env
	external *externalmetrics.Server
)

// syncPeriod is the HPA controller's own default, at which the lab runs it.
const syncPeriod = 15 * time.Second

// parallel is how many tests run at once, whatever the number of cores: nearly all of their time they wait for the HPA
// controller.
const parallel = "8"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(rsgtest.Main(m, &env, func(ctx context.Context, e *rsgtest.Env) error {
		if _, err := e.StartManager(ctx, rsgtest.ManagerOptions{}); err != nil {
			return err
		}
		var err error
		external, err = externalmetrics.Serve(ctx, e.Lab)
		return err
	}, lab.MetricsServer))
}

// groups refers to the world's ResourceScalingGroup.
func groups(w *rsgtest.World) autoscalingv2.CrossVersionObjectReference {
	return autoscalingv2.CrossVersionObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ResourceScalingGroup", Name: w.Name}
}

// deployment refers to a Deployment.
func deployment(name string) autoscalingv2.CrossVersionObjectReference {
	return autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
}

// makeHPA returns an HPA beside the world's ResourceScalingGroup.
func makeHPA(w *rsgtest.World, name string, target autoscalingv2.CrossVersionObjectReference, least, most int32, metric autoscalingv2.MetricSpec) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: target, MinReplicas: &least, MaxReplicas: most, Metrics: []autoscalingv2.MetricSpec{metric},
		},
	}
}

// cpuUtilization is a target in percent of what the pods request.
func cpuUtilization(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
	}}
}

// averageMemory is a target per pod. Memory is a gauge: unlike CPU, a rate between two scrapes, it reaches the HPA
// controller exactly as it was set.
func averageMemory(target string) autoscalingv2.MetricSpec {
	quantity := resource.MustParse(target)
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: corev1.ResourceMemory, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &quantity},
	}}
}

// waitHPA waits until the check accepts the HPA.
func waitHPA(w *rsgtest.World, name, what string, check func(*autoscalingv2.HorizontalPodAutoscaler) error) {
	w.T.Helper()
	testkit.Eventually(w.T, rsgtest.Patience, what, func(ctx context.Context) error {
		hpa := &autoscalingv2.HorizontalPodAutoscaler{}
		if err := w.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: name}, hpa); err != nil {
			return err
		}
		return check(hpa)
	})
}

// waitLooked waits until the HPA controller has looked at the HPA, and so the manager was told of it.
func waitLooked(w *rsgtest.World, name string) {
	w.T.Helper()
	waitHPA(w, name, "the HPA controller to look at "+name, func(hpa *autoscalingv2.HorizontalPodAutoscaler) error {
		return hasCondition(hpa, autoscalingv2.AbleToScale, corev1.ConditionTrue, "")
	})
}

// hasCondition returns nil when the HPA has the condition, with any reason where none is given.
func hasCondition(hpa *autoscalingv2.HorizontalPodAutoscaler, conditionType autoscalingv2.HorizontalPodAutoscalerConditionType, status corev1.ConditionStatus, reason string) error {
	for _, c := range hpa.Status.Conditions {
		if c.Type != conditionType {
			continue
		}
		if c.Status != status || reason != "" && c.Reason != reason {
			return fmt.Errorf("%s is %s, reason %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
		return nil
	}
	return fmt.Errorf("there is no condition %s", conditionType)
}

// counts records every number of groups that was asked for, as the API server's own stream of changes tells it.
type counts struct {
	w       *rsgtest.World
	started time.Time

	mu    sync.Mutex
	seen  []int32
	ended bool
}

// recordCounts begins with the number of groups that is asked for now.
func recordCounts(w *rsgtest.World) *counts {
	w.T.Helper()
	stream, err := w.Client.Watch(w.T.Context(), &v1alpha1.ResourceScalingGroupList{}, client.InNamespace(w.Namespace))
	if err != nil {
		w.T.Fatal(err)
	}
	c := &counts{w: w, started: time.Now()}
	follow(w, stream, c.take)
	return c
}

// take takes in one change, or the end of the stream.
func (c *counts) take(e watch.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rsg, ok := e.Object.(*v1alpha1.ResourceScalingGroup)
	if !ok {
		c.ended = true
		return
	}
	n := *rsg.Spec.ScalingStrategy.GroupConfig.Replicas
	if len(c.seen) == 0 || c.seen[len(c.seen)-1] != n {
		c.seen = append(c.seen, n)
		c.w.T.Logf("%5.1f s: %d groups are asked for", time.Since(c.started).Seconds(), n)
	}
}

// follow hands on every change until the test ends, and an empty one when the stream does.
func follow(w *rsgtest.World, stream watch.Interface, take func(watch.Event)) {
	done := make(chan struct{})
	// Nothing may be logged once the test is over.
	w.T.Cleanup(func() {
		stream.Stop()
		<-done
	})
	go func() {
		defer close(done)
		for e := range stream.ResultChan() {
			take(e)
		}
		take(watch.Event{})
	}()
}

// are returns nil when these are the counts so far, in this order.
func (c *counts) are(want ...int32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return errors.New("the API server ended the watch")
	}
	if !slices.Equal(c.seen, want) {
		return fmt.Errorf("the number of groups went %v, want %v", c.seen, want)
	}
	return nil
}

// startWith returns nil when nothing but the beginning of these counts was seen so far.
func (c *counts) startWith(want ...int32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.seen) > len(want) || !slices.Equal(c.seen, want[:len(c.seen)]) {
		return fmt.Errorf("the number of groups went %v, want %v", c.seen, want)
	}
	return nil
}

// wait waits until these are the counts, and fails as soon as they cannot be any more.
func (c *counts) wait(want ...int32) {
	c.w.T.Helper()
	testkit.Eventually(c.w.T, rsgtest.Patience, fmt.Sprintf("the number of groups to go %v", want), func(context.Context) error {
		if err := c.startWith(want...); err != nil {
			c.w.T.Fatal(err)
		}
		return c.are(want...)
	})
}
