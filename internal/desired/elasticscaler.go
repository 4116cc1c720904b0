package desired

import (
	"fmt"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/condition"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/pipeline"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/scalerspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/state"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// scalerConditions are the types of conditions that an ElasticScaler's controller keeps.
var scalerConditions = []string{
	v1alpha1.ConditionReady,
	v1alpha1.ConditionValidated,
	v1alpha1.ConditionMetricsCollected,
	v1alpha1.ConditionScalingCalculated,
	v1alpha1.ConditionReconciliationComplete,
	v1alpha1.ConditionAvailable,
	v1alpha1.ConditionProgressing,
	v1alpha1.ConditionDegraded,
	v1alpha1.ConditionPaused,
	v1alpha1.ConditionScalerConflict,
	v1alpha1.ConditionActivationSourceMissing,
}

// Listening is how listening for signals goes.
type Listening struct {
	// Reason and Message say why nothing can be heard; empty while all is well.
	Reason, Message string
	// Refused says why the last message counted for nothing because it could not be read.
	Refused string
}

// ScalerObservation is what a pass has found out about an ElasticScaler.
type ScalerObservation struct {
	// Problems are faults of the spec and of the target, the gravest first. With one of them nothing is decided.
	Problems []condition.Problem
	// Paused is spec.paused.
	Paused bool
	// YieldsTo names the object with the first right to the count, "" where this one has it.
	YieldsTo string
	// Bounds are those in force.
	Bounds scalerspec.Bounds
	// Target names the target in words; "" where it is not known.
	Target string
	// Current is the count before this pass wrote another; Have is how many replicas there are.
	Current, Have *int32
	// Decision is the decision in force, nil where there is none yet.
	Decision *v1alpha1.Decision
	// Calculated tells that its count follows from what drives the scaler.
	Calculated bool
	// Want is the count to have, nil where it is left alone.
	Want *int32
	// Scaled is when this pass wrote the count, nil where it did not.
	Scaled *metav1.Time
	// WriteProblem is why something could not be written.
	WriteProblem *condition.Problem
	// Fight says that another writer sets the count back; "" where none does.
	Fight string
	// Listening is set for a SignalTrigger that is listened for.
	Listening *Listening
	// ByHPA tells that an HPA decides. HPA is as it was read, nil where it has just been made.
	ByHPA bool
	HPA   *autoscalingv2.HorizontalPodAutoscaler
}

// Reason says in a sentence why the count is as wanted.
func (o ScalerObservation) Reason() string {
	if o.Decision == nil {
		return ""
	}
	return o.Decision.Message
}

// Healthy reports whether a condition tells of nothing that a user would want to mend.
func Healthy(c metav1.Condition) bool {
	switch c.Type {
	case v1alpha1.ConditionProgressing, v1alpha1.ConditionPaused:
		return true
	case v1alpha1.ConditionDegraded, v1alpha1.ConditionScalerConflict, v1alpha1.ConditionActivationSourceMissing:
		return c.Status != metav1.ConditionTrue
	}
	return c.Status == metav1.ConditionTrue || asWanted(c.Reason)
}

// asWanted reports whether a reason tells of what the user asked for, or of what is on its way.
func asWanted(reason string) bool {
	return reason == v1alpha1.ReasonPaused || reason == v1alpha1.ReasonNoSignal || reason == v1alpha1.ReasonWaiting
}

// DecisionOfPlan records a decision on metrics.
func DecisionOfPlan(p pipeline.Plan, algorithm string, current int32, at metav1.Time) *v1alpha1.Decision {
	d := &v1alpha1.Decision{
		Time: &at, Algorithm: algorithm, CurrentReplicas: &current, DesiredReplicas: &p.Desired, Reason: p.Reason, Message: cut(p.Message, 4096),
	}
	for _, in := range p.Inputs {
		input := v1alpha1.DecisionInput{
			Type: in.Type, Name: cut(in.Name, 512), Target: number(in.Target), ProposedReplicas: in.Proposed, Reason: in.Reason, Message: cut(in.Message, 1024),
		}
		if in.Value != nil {
			input.Value = number(*in.Value)
		}
		if !in.Time.IsZero() {
			read := metav1.NewTime(in.Time).Rfc3339Copy()
			input.Time = &read
		}
		d.Inputs = append(d.Inputs, input)
	}
	for _, s := range p.Steps {
		d.Steps = append(d.Steps, stepOf(s))
	}
	if len(d.Steps) > 32 {
		d.Steps = d.Steps[len(d.Steps)-32:]
	}
	return d
}

func stepOf(s scaling.Step) v1alpha1.DecisionStep {
	return v1alpha1.DecisionStep{Name: cut(s.Name, 63), From: &s.From, To: &s.To, Reason: cut(s.Reason, 256), Message: cut(s.Message, 1024)}
}

// number is a value for people: as many digits as tell values apart in practice.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

func cut(s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most-1]) + "…"
}

// DecisionOfState records the count that was taken from a source.
func DecisionOfState(c state.Choice, bounds scalerspec.Bounds, current *int32, at metav1.Time) *v1alpha1.Decision {
	d := &v1alpha1.Decision{Time: &at, CurrentReplicas: current, Reason: c.Reason, Message: cut(c.Message, 4096)}
	if c.Source != nil {
		input := v1alpha1.DecisionInput{Type: "State", Name: cut(c.Source.String(), 512), ProposedReplicas: c.Replicas, Reason: c.Reason, Message: cut(c.Message, 1024)}
		if c.Replicas != nil {
			input.Value = strconv.Itoa(int(*c.Replicas))
		}
		d.Inputs = []v1alpha1.DecisionInput{input}
	}
	if c.Replicas != nil {
		d.Reason, d.Message = v1alpha1.ReasonCountOfSource, fmt.Sprintf("%s wants %d replicas", c.Source, *c.Replicas)
		clamp(d, *c.Replicas, bounds)
	}
	return d
}

// DecisionOfSignal records the count that follows from the last signal, nil where there was none.
func DecisionOfSignal(last *v1alpha1.Signal, bounds scalerspec.Bounds, current *int32, at metav1.Time) *v1alpha1.Decision {
	d := &v1alpha1.Decision{Time: &at, CurrentReplicas: current}
	if last == nil {
		d.Reason, d.Message = v1alpha1.ReasonNoSignal, "no signal was accepted yet: the count is left alone until one is"
		return d
	}
	count := bounds.Max
	if last.Signal == v1alpha1.SignalScaleDown {
		count = bounds.Min
	}
	d.DesiredReplicas = count
	d.Inputs = []v1alpha1.DecisionInput{{Type: "Signal", Name: last.ID, Value: string(last.Signal), Time: last.ReceivedTime, ProposedReplicas: count}}
	d.Reason = v1alpha1.ReasonSignalReceived
	d.Message = fmt.Sprintf("signal %s stands", last.Signal)
	if last.ID != "" {
		d.Message = fmt.Sprintf("signal %s with id %q stands", last.Signal, last.ID)
	}
	return d
}

// clamp sets the count to what the bounds leave of it, and records where they change it.
func clamp(d *v1alpha1.Decision, count int32, bounds scalerspec.Bounds) {
	result, reason, bound := count, "", ""
	if bounds.Max != nil && result > *bounds.Max {
		result, reason, bound = *bounds.Max, v1alpha1.ReasonMaxReplicas, "maxReplicas"
	}
	if bounds.Min != nil && result < *bounds.Min {
		result, reason, bound = *bounds.Min, v1alpha1.ReasonMinReplicas, "minReplicas"
	}
	d.DesiredReplicas = &result
	if reason != "" {
		message := fmt.Sprintf("%s is %d", bound, result)
		d.Steps = append(d.Steps, v1alpha1.DecisionStep{Name: "Bounds", From: &count, To: &result, Reason: reason, Message: message})
		d.Reason, d.Message = reason, d.Message+", and "+message
	}
}

// ElasticScalerStatus returns the status to write. It is the previous one where nothing has changed but values and times,
// so that a decision that changes nothing writes nothing.
func ElasticScalerStatus(scaler *v1alpha1.ElasticScaler, o ScalerObservation, now metav1.Time) v1alpha1.ElasticScalerStatus {
	previous := scaler.Status
	s := v1alpha1.ElasticScalerStatus{
		ObservedGeneration: &scaler.Generation,
		CurrentReplicas:    o.Current,
		MinReplicas:        o.Bounds.Min,
		MaxReplicas:        o.Bounds.Max,
		LastScaleTime:      previous.LastScaleTime,
		LastSignal:         previous.LastSignal,
		LastDecision:       o.Decision,
	}
	if o.Decision != nil {
		s.DesiredReplicas = o.Decision.DesiredReplicas
		if o.Decision.CurrentReplicas != nil {
			s.CurrentReplicas = o.Decision.CurrentReplicas
		}
	}
	// Conditions are there once its controller has looked. A generation is not, on Kubernetes 1.28.
	if o.ByHPA && o.HPA != nil && len(o.HPA.Status.Conditions) > 0 {
		s.DesiredReplicas = &o.HPA.Status.DesiredReplicas
		s.LastScaleTime = o.HPA.Status.LastScaleTime
	}
	if o.Scaled != nil {
		s.LastScaleTime = o.Scaled
	}
	if s.LastDecision == nil && !scalerspec.IsHPA(scaler.Spec) {
		// What was decided before a restart stands until the next decision.
		s.LastDecision, s.DesiredReplicas = previous.LastDecision, previous.DesiredReplicas
	}
	conditions := scalerConditionsOf(scaler, s, o)
	if o.Decision == nil && s.LastDecision != nil && len(o.Problems) == 0 {
		// The same holds for what it said of the metrics.
		for i, c := range conditions {
			if c.Type == v1alpha1.ConditionMetricsCollected || c.Type == v1alpha1.ConditionScalingCalculated || c.Type == v1alpha1.ConditionDegraded {
				if before := meta.FindStatusCondition(previous.Conditions, c.Type); before != nil {
					conditions[i] = *before
				}
			}
		}
	}
	conditions = append(conditions, scalerReady(conditions, o))
	s.Conditions = condition.Merge(previous.Conditions, scalerConditions, conditions, scaler.Generation, now)
	if o.Scaled == nil && sameOutcome(previous, s) {
		return previous
	}
	s.LastSyncTime = &now
	return s
}

// sameOutcome reports whether two statuses differ in nothing but values, times and the words that tell of them.
func sameOutcome(a, b v1alpha1.ElasticScalerStatus) bool {
	return equality.Semantic.DeepEqual(outcome(a), outcome(b))
}

// outcome reduces a status to what is worth a write.
func outcome(s v1alpha1.ElasticScalerStatus) v1alpha1.ElasticScalerStatus {
	out := *s.DeepCopy()
	out.LastSyncTime = nil
	for i := range out.Conditions {
		out.Conditions[i].Message, out.Conditions[i].LastTransitionTime = "", metav1.Time{}
	}
	if d := out.LastDecision; d != nil {
		// The step that limits the count gives the reason. Others come and go with the values.
		d.Time, d.Message, d.Steps = nil, "", nil
		for i := range d.Inputs {
			in := &d.Inputs[i]
			in.Time, in.Message, in.ProposedReplicas = nil, "", nil
			if in.Type != "State" && in.Type != "Signal" {
				in.Value = ""
			}
		}
	}
	return out
}

// scalerConditionsOf returns the conditions of a status that is otherwise complete, but for Ready.
func scalerConditionsOf(scaler *v1alpha1.ElasticScaler, s v1alpha1.ElasticScalerStatus, o ScalerObservation) []metav1.Condition {
	all := []metav1.Condition{
		validated(o),
		calculated(scaler, s, o),
		reconciled(s, o),
		available(o),
		scalerProgressing(s, o),
		scalerDegraded(s, o),
		conflict(o),
	}
	if scaler.Spec.Trigger.Type == v1alpha1.MetricsTriggerType {
		all = append(all, collected(scaler, s, o))
	}
	if o.Paused {
		all = append(all, condition.New(v1alpha1.ConditionPaused, true, v1alpha1.ReasonPaused, "spec.paused is true: only the status is written, and the count belongs to others"))
	} else {
		all = append(all, condition.New(v1alpha1.ConditionPaused, false, v1alpha1.ReasonNotPaused, "spec.paused is not true"))
	}
	if scalerspec.LacksActivation(scaler.Spec) {
		all = append(all, condition.New(v1alpha1.ConditionActivationSourceMissing, true, v1alpha1.ConditionActivationSourceMissing,
			"minReplicas is 0 and every metric comes from the pods themselves, so that nothing would start the target again: add a metric that exists while no pod runs, or set minReplicas to 1"))
	}
	return all
}

func validated(o ScalerObservation) metav1.Condition {
	if len(o.Problems) == 0 {
		return condition.New(v1alpha1.ConditionValidated, true, v1alpha1.ReasonValid, "the spec makes sense with what the cluster has")
	}
	messages := make([]string, len(o.Problems))
	for i, p := range o.Problems {
		messages[i] = p.Message
	}
	return condition.New(v1alpha1.ConditionValidated, false, o.Problems[0].Reason, strings.Join(messages, "; "))
}

// undecided says why there is no decision.
func undecided(conditionType string, scaler *v1alpha1.ElasticScaler, o ScalerObservation) metav1.Condition {
	switch hpa := scalerspec.IsHPA(scaler.Spec); {
	case hpa && o.YieldsTo != "":
		return condition.New(conditionType, false, v1alpha1.ReasonConflict, "there is no HorizontalPodAutoscaler of this scaler, since "+o.YieldsTo+" has the first right to the count")
	case hpa && o.Paused:
		return condition.New(conditionType, false, v1alpha1.ReasonPaused, "there is no HorizontalPodAutoscaler of this scaler, since spec.paused is true")
	}
	return condition.New(conditionType, false, v1alpha1.ReasonWaiting, "the first evaluation has not ended yet")
}

// missing are the inputs without a value.
func missing(d *v1alpha1.Decision) []v1alpha1.DecisionInput {
	var out []v1alpha1.DecisionInput
	for _, in := range d.Inputs {
		if in.Reason != "" && in.Value == "" {
			out = append(out, in)
		}
	}
	return out
}

func collected(scaler *v1alpha1.ElasticScaler, s v1alpha1.ElasticScalerStatus, o ScalerObservation) metav1.Condition {
	if o.ByHPA {
		return fromHPA(v1alpha1.ConditionMetricsCollected, autoscalingv2.ScalingActive, o.HPA)
	}
	if len(o.Problems) > 0 {
		return condition.New(v1alpha1.ConditionMetricsCollected, false, o.Problems[0].Reason, "metrics are not read, since the spec or the target is at fault")
	}
	d := s.LastDecision
	if d == nil {
		return undecided(v1alpha1.ConditionMetricsCollected, scaler, o)
	}
	without := missing(d)
	if len(without) == 0 {
		return condition.New(v1alpha1.ConditionMetricsCollected, true, v1alpha1.ReasonAllMetricsAvailable, "every metric has a value")
	}
	messages := make([]string, len(without))
	for i, in := range without {
		messages[i] = fmt.Sprintf("%s metric %q: %s", in.Type, in.Name, in.Message)
	}
	reason := without[0].Reason
	if len(without) < len(d.Inputs) {
		reason = v1alpha1.ReasonPartialMetrics
	}
	return condition.New(v1alpha1.ConditionMetricsCollected, false, reason, strings.Join(messages, "; "))
}

func calculated(scaler *v1alpha1.ElasticScaler, s v1alpha1.ElasticScalerStatus, o ScalerObservation) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return condition.New(v1alpha1.ConditionScalingCalculated, false, reason, message)
	}
	switch d := s.LastDecision; {
	case o.ByHPA:
		return fromHPA(v1alpha1.ConditionScalingCalculated, autoscalingv2.ScalingActive, o.HPA)
	case len(o.Problems) > 0:
		return no(o.Problems[0].Reason, "no count is decided, since the spec or the target is at fault")
	case d == nil:
		return undecided(v1alpha1.ConditionScalingCalculated, scaler, o)
	case !o.Calculated:
		return no(d.Reason, d.Message)
	default:
		return condition.New(v1alpha1.ConditionScalingCalculated, true, d.Reason, d.Message)
	}
}

// reconciled tells whether the count that was decided has been written, or stood already.
func reconciled(s v1alpha1.ElasticScalerStatus, o ScalerObservation) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return condition.New(v1alpha1.ConditionReconciliationComplete, false, reason, message)
	}
	switch {
	case len(o.Problems) > 0:
		return no(o.Problems[0].Reason, "nothing is written, since the spec or the target is at fault")
	case o.YieldsTo != "":
		return no(v1alpha1.ReasonConflict, o.YieldsTo+" has the first right to the count")
	case o.Paused:
		return no(v1alpha1.ReasonPaused, "spec.paused is true")
	case o.Fight != "":
		return no(v1alpha1.ReasonReplicaFight, o.Fight)
	case o.WriteProblem != nil:
		return no(o.WriteProblem.Reason, o.WriteProblem.Message)
	case o.ByHPA:
		return condition.New(v1alpha1.ConditionReconciliationComplete, true, v1alpha1.ReasonReconciled, "the HorizontalPodAutoscaler is as the spec says")
	case s.DesiredReplicas == nil:
		return no(v1alpha1.ReasonWaiting, "no count is decided yet")
	}
	return condition.New(v1alpha1.ConditionReconciliationComplete, true, v1alpha1.ReasonReconciled, fmt.Sprintf("%s is set to the count that was decided", o.Target))
}

func available(o ScalerObservation) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return condition.New(v1alpha1.ConditionAvailable, false, reason, message)
	}
	switch {
	case len(o.Problems) > 0:
		return no(o.Problems[0].Reason, o.Problems[0].Message)
	case o.WriteProblem != nil:
		return no(o.WriteProblem.Reason, o.WriteProblem.Message)
	case o.ByHPA:
		if able := fromHPA(v1alpha1.ConditionAvailable, autoscalingv2.AbleToScale, o.HPA); able.Status != metav1.ConditionTrue {
			return able
		}
		return fromHPA(v1alpha1.ConditionAvailable, autoscalingv2.ScalingActive, o.HPA)
	case o.Listening != nil && o.Listening.Reason != "":
		return no(o.Listening.Reason, o.Listening.Message)
	}
	return condition.New(v1alpha1.ConditionAvailable, true, v1alpha1.ReasonReconciled, o.Target+" can be scaled")
}

// fromHPA takes a condition over from the HPA that decides.
func fromHPA(conditionType string, of autoscalingv2.HorizontalPodAutoscalerConditionType, hpa *autoscalingv2.HorizontalPodAutoscaler) metav1.Condition {
	if hpa != nil {
		for _, c := range hpa.Status.Conditions {
			if c.Type == of {
				return condition.New(conditionType, c.Status == corev1.ConditionTrue, c.Reason, "HorizontalPodAutoscaler: "+c.Message)
			}
		}
	}
	return condition.New(conditionType, false, v1alpha1.ReasonWaiting, "the HorizontalPodAutoscaler has not been looked at by its controller yet")
}

func scalerProgressing(s v1alpha1.ElasticScalerStatus, o ScalerObservation) metav1.Condition {
	wanted := s.DesiredReplicas
	if o.ByHPA || o.Paused || o.YieldsTo != "" {
		wanted = o.Current
	}
	if len(o.Problems) > 0 || wanted == nil || o.Have == nil || *o.Have == *wanted {
		return condition.New(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonReconciled, "the target is not on its way to another count")
	}
	return condition.New(v1alpha1.ConditionProgressing, true, v1alpha1.ReasonScaling, fmt.Sprintf("%s has %d of %d replicas", o.Target, *o.Have, *wanted))
}

func scalerDegraded(s v1alpha1.ElasticScalerStatus, o ScalerObservation) metav1.Condition {
	yes := func(reason, message string) metav1.Condition {
		return condition.New(v1alpha1.ConditionDegraded, true, reason, message)
	}
	if len(o.Problems) == 0 && s.LastDecision != nil && !o.ByHPA {
		for _, in := range s.LastDecision.Inputs {
			if in.Reason != "" {
				return yes(in.Reason, fmt.Sprintf("%s %q: %s", in.Type, in.Name, in.Message))
			}
		}
	}
	switch {
	case o.Fight != "":
		return yes(v1alpha1.ReasonReplicaFight, o.Fight)
	case o.Listening != nil && o.Listening.Reason != "":
		return yes(o.Listening.Reason, o.Listening.Message)
	case o.Listening != nil && o.Listening.Refused != "":
		return yes(v1alpha1.ReasonInvalidSignal, o.Listening.Refused)
	}
	return condition.New(v1alpha1.ConditionDegraded, false, v1alpha1.ReasonReconciled, "the scaler has all that it was given")
}

func conflict(o ScalerObservation) metav1.Condition {
	if o.YieldsTo == "" {
		return condition.New(v1alpha1.ConditionScalerConflict, false, v1alpha1.ReasonNoConflict, "no other object has the first right to the count")
	}
	return condition.New(v1alpha1.ConditionScalerConflict, true, v1alpha1.ReasonConflict, fmt.Sprintf(
		"%s has the first right to the count of %s: this one writes nothing until the other is gone or has another target", o.YieldsTo, o.Target))
}

// scalerReady sums the other conditions up.
func scalerReady(all []metav1.Condition, o ScalerObservation) metav1.Condition {
	if conflict := meta.FindStatusCondition(all, v1alpha1.ConditionScalerConflict); conflict.Status == metav1.ConditionTrue {
		return condition.New(v1alpha1.ConditionReady, false, conflict.Reason, conflict.Message)
	}
	for _, of := range []string{v1alpha1.ConditionValidated, v1alpha1.ConditionAvailable, v1alpha1.ConditionScalingCalculated, v1alpha1.ConditionReconciliationComplete} {
		c := meta.FindStatusCondition(all, of)
		// A scaler that is paused, or waits for its first signal, is as its user wants it.
		if c.Status != metav1.ConditionTrue && c.Reason != v1alpha1.ReasonPaused && c.Reason != v1alpha1.ReasonNoSignal &&
			(of != v1alpha1.ConditionReconciliationComplete || c.Reason != v1alpha1.ReasonWaiting || o.Listening == nil) {
			return condition.New(v1alpha1.ConditionReady, false, c.Reason, c.Message)
		}
	}
	if o.Paused {
		return condition.New(v1alpha1.ConditionReady, true, v1alpha1.ReasonPaused, "the scaler works, and spec.paused is true")
	}
	return condition.New(v1alpha1.ConditionReady, true, v1alpha1.ReasonReconciled, "the scaler is valid, decides, and its target follows")
}
