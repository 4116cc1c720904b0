package elasticscaler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/pipeline"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/scalerspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/usage"
	"github.com/pd-orchestrator/pd-orchestrator/internal/metricsource"
	"github.com/pd-orchestrator/pd-orchestrator/internal/sampling"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// question is what is asked about one metric of the spec.
type question struct {
	// requests are one for each namespace that the target has pods in, or a single one.
	requests []metricsource.Request
	// namespaces are those of the requests of a metric of pods.
	namespaces []string
	// problem is why nothing can be asked.
	problem *pipeline.Problem
}

// evaluate has the metrics of the scaler read, and decides once for each round of answers.
func (r *Reconciler) evaluate(ctx context.Context, p *pass) error {
	key := client.ObjectKeyFromObject(p.scaler)
	if p.target == nil || len(p.problems) > 0 {
		r.Sampler.Forget(key)
		return nil
	}
	var pods []usage.Pod
	namespaces := []string{p.target.key.Namespace}
	if needsPods(p.scaler.Spec.Trigger.MetricsTrigger.Metrics) {
		var err error
		if pods, namespaces, err = r.podsOf(ctx, p.target); err != nil {
			return err
		}
	}
	questions := ask(p.scaler, p.target, namespaces)
	// What a user changed is decided on at once, and not an interval later.
	spec := sampling.Spec{Interval: scalerspec.Interval(p.scaler.Spec, r.Defaults), Now: p.edited}
	for _, q := range questions {
		spec.Requests = append(spec.Requests, q.requests...)
	}
	r.Sampler.Set(key, spec)
	if p.known.memory == nil || p.known.memoryOf != p.target.uid {
		p.known.memory, p.known.memoryOf = pipeline.NewMemory(r.Clock.Now(), p.target.count.Desired), p.target.uid
	}
	round, ok := r.Sampler.Round(key)
	if !ok || !round.Time.After(p.known.seen) {
		return nil
	}
	p.known.seen = round.Time
	p.known.zeroed = p.known.zeroed && p.target.count.Desired == 0
	now := r.Clock.Now()
	facts := pipeline.Facts{
		Now: now, Target: p.target.reference(), Current: p.target.count.Desired, ZeroIsOurs: p.zeroIsOurs(),
		Settings: p.known.settings,
		Readings: r.readings(now, p, questions, round.Answers, pods),
	}
	plan := pipeline.Decide(ctx, facts, p.known.memory)
	var before []pipeline.Input
	if p.known.plan != nil {
		before = p.known.plan.plan.Inputs
	}
	r.Telemetry.Decided(p.scaler.Namespace, p.scaler.Name, plan, before, now.Sub(round.Time))
	if plan.Err != nil {
		log.FromContext(ctx).Error(plan.Err, "The algorithm failed", "algorithm", p.known.settings.Algorithm.Name())
	}
	p.known.plan = &decided{plan: plan, current: facts.Current, at: now, target: p.target.uid}
	return nil
}

// decided is a plan and what it was made for.
type decided struct {
	plan    pipeline.Plan
	current int32
	at      time.Time
	target  types.UID
}

// zeroIsOurs reports whether a count of 0 follows from a decision of the scaler, and not from somebody who switched the
// target off.
func (p *pass) zeroIsOurs() bool {
	s := p.scaler.Status
	// The status may not tell of the last write, if that of the status itself failed.
	return p.known.zeroed || s.DesiredReplicas != nil && *s.DesiredReplicas == 0 && s.LastDecision != nil && s.LastDecision.Reason != v1alpha1.ReasonManualZero
}

func needsPods(metrics []v1alpha1.MetricSpec) bool {
	for _, m := range metrics {
		switch {
		case m.Resource != nil, m.Custom != nil, m.External != nil && m.External.Target.Type == v1alpha1.ValueMetricType:
			return true
		}
	}
	return false
}

// ask returns what is to be asked, in the order of the metrics.
func ask(scaler *v1alpha1.ElasticScaler, t *target, namespaces []string) []question {
	metrics := scaler.Spec.Trigger.MetricsTrigger.Metrics
	questions := make([]question, len(metrics))
	for i, m := range metrics {
		q := &questions[i]
		one := func(r metricsource.Request, err error) {
			if err != nil {
				q.problem = &pipeline.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error()}
				return
			}
			q.requests = append(q.requests, r)
		}
		switch {
		case m.Resource != nil:
			q.namespaces = namespaces
			for _, ns := range namespaces {
				one(metricsource.ResourceRequest(ns), nil)
			}
		case m.Custom != nil:
			selector, err := podSelector(t)
			if err != nil {
				q.problem = &pipeline.Problem{Reason: v1alpha1.ReasonNoData, Message: err.Error()}
				continue
			}
			q.namespaces = namespaces
			for _, ns := range namespaces {
				one(metricsource.CustomRequest(ns, m.Custom.MetricsName, m.Custom.Selector, selector))
			}
		case m.External != nil:
			one(metricsource.ExternalRequest(t.key.Namespace, scalerspec.MetricName(m), m.External.Selector))
		case m.ExternalServer != nil:
			e := m.ExternalServer
			one(metricsource.EndpointRequest(e.Endpoint, string(e.Protocol), e.Query, e.MetricsName))
		}
	}
	return questions
}

// podSelector chooses the pods of a target: of a ResourceScalingGroup all of its groups, and not the one of each that
// stands for it before an HPA.
func podSelector(t *target) (labels.Selector, error) {
	if t.isGroup() {
		return labels.SelectorFromSet(labels.Set{
			autoscalingv1alpha1.LabelName: t.key.Name, autoscalingv1alpha1.LabelNamespace: t.key.Namespace,
		}), nil
	}
	selector, err := labels.Parse(t.count.Selector)
	if err != nil || selector.Empty() {
		return nil, fmt.Errorf("%s tells no selector for its pods in status.selector of its scale subresource", t)
	}
	return selector, nil
}

// readings turns the answers into what the decision reads.
func (r *Reconciler) readings(now time.Time, p *pass, questions []question, answers []sampling.Result, pods []usage.Pod) []pipeline.Reading {
	metrics := p.scaler.Spec.Trigger.MetricsTrigger.Metrics
	readings := make([]pipeline.Reading, len(metrics))
	next := 0
	for i, q := range questions {
		of := answers[min(next, len(answers)):min(next+len(q.requests), len(answers))]
		next += len(q.requests)
		if q.problem != nil {
			readings[i].Problem = q.problem
			continue
		}
		if problem := firstProblem(of, len(q.requests)); problem != nil {
			readings[i].Problem = problem
			continue
		}
		sample, problem := r.sampleOf(now, p.target, metrics[i], q, of, pods)
		if problem != nil {
			readings[i].Problem = problem
		} else {
			readings[i].Sample = &sample
		}
	}
	return readings
}

func firstProblem(answers []sampling.Result, due int) *pipeline.Problem {
	for _, a := range answers {
		if a.Err != nil {
			return &pipeline.Problem{Reason: a.Err.Reason, Message: a.Err.Message}
		}
	}
	if len(answers) < due {
		return &pipeline.Problem{Reason: v1alpha1.ReasonNoData, Message: "the metric has not been read yet"}
	}
	return nil
}

func (r *Reconciler) sampleOf(now time.Time, t *target, m v1alpha1.MetricSpec, q question, answers []sampling.Result, pods []usage.Pod) (scaling.Sample, *pipeline.Problem) {
	name, of := scalerspec.MetricName(m), scalerspec.TargetOf(m)
	if m.Resource == nil && m.Custom == nil {
		total := usage.Total{Metric: name, Target: of, Current: t.count.Desired, Total: answers[0].Answer.Value, Time: answers[0].Answer.Time}
		if of.Type == usage.Value {
			total.Ready = usage.ReadyUnits(pods)
		}
		return usage.OfTotal(total)
	}
	ofPods := usage.Pods{
		Now: now, Metric: name, Target: of, Current: t.count.Desired, Pods: pods,
		InitializationPeriod: r.CPUInitialization, ReadinessDelay: r.InitialReadiness,
	}
	if m.Resource != nil {
		ofPods.Resource = corev1.ResourceName(name)
		ofPods.Samples = resourceSamples(q.namespaces, answers, ofPods.Resource)
	} else {
		ofPods.Samples = customSamples(q.namespaces, answers)
	}
	return usage.OfPods(ofPods)
}

// resourceSamples returns the use of each pod of which every container has one.
func resourceSamples(namespaces []string, answers []sampling.Result, resource corev1.ResourceName) map[string]usage.PodSample {
	samples := map[string]usage.PodSample{}
	for i, a := range answers {
		for name, pod := range a.Answer.Pods {
			sum, whole := 0.0, len(pod.Containers) > 0
			for _, c := range pod.Containers {
				q, ok := c.Usage[resource]
				whole = whole && ok
				sum += q.AsApproximateFloat64()
			}
			if whole {
				samples[podKey(namespaces[i], name)] = usage.PodSample{Value: sum, Time: pod.Time, Window: pod.Window}
			}
		}
	}
	return samples
}

func customSamples(namespaces []string, answers []sampling.Result) map[string]usage.PodSample {
	samples := map[string]usage.PodSample{}
	for i, a := range answers {
		for name, pod := range a.Answer.Pods {
			samples[podKey(namespaces[i], name)] = usage.PodSample{Value: pod.Value, Time: pod.Time, Window: pod.Window}
		}
	}
	return samples
}
