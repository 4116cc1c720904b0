package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/lab"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
)

// What the manifests hold.
const (
	userNamespace    = "production"
	scalingNamespace = lab.ProductNamespace
	rsgName          = "llm-prefill-decode-group"
	groupName        = "Prefill-Decode"
	replicaConfig    = rsgName + "-replica-config"
	metric           = "vllm:num_requests_running"

	prefill = "prefill"
	decode  = "decode"
)

// targets are in the order of the ResourceScalingGroup, baseline their replicas.
var (
	targets  = []string{prefill, decode}
	baseline = map[string]int32{prefill: 1, decode: 2}
)

// Phases of a group that the story looks for.
const (
	phaseReady  = "Ready"
	phaseAtZero = "AtZero"
)

// What Prometheus is asked for each look. The name of the ResourceScalingGroup keeps apart the pods that one has taken
// and those that none has.
const (
	selection      = metric + `{namespace=~"` + userNamespace + "|" + scalingNamespace + `"}`
	averageByGroup = "avg by (rsg_name, group_id) (" + selection + ")"
)

// rankingQuery is what ranks the groups: the aggregation that scaleDown.metric asks for.
const rankingQuery = "avg by (group_id) (" + metric + `{rsg_name="` + rsgName + `"})`

func story() []step {
	return []step{
		{"workloads", "two Deployments, each with a Service", (*player).workloads},
		{"replicate", "a ResourceScalingGroup makes them group 0 and adds group 1", (*player).replicate},
		{"scale up", "4 groups, through the scale subresource", (*player).scaleUp},
		{"by metric", "2 groups: the two with the fewest running requests go", (*player).scaleDownByMetric},
		{"fallback", "1 group, while Prometheus is down", (*player).scaleDownBlind},
		{"zero and back", "0 groups, then 2: group 0 gets its recorded replicas again", (*player).zeroAndBack},
		{"let go", "the ResourceScalingGroup is deleted; the workloads stay", (*player).letGo},
	}
}

func (p *player) workloads(ctx context.Context) error {
	if err := p.apply(ctx, "workloads.yaml"); err != nil {
		return err
	}
	v, err := p.expect(ctx, complete(unmanaged), nothingElse(false, unmanaged), measured(unmanaged))
	if err != nil {
		return err
	}
	p.show(v)
	p.screen.Say("PREFILL and DECODE are available/desired replicas; RUNNING is what Prometheus answers to\navg by (group_id) (%s).", metric)
	return nil
}

func (p *player) replicate(ctx context.Context) error {
	before, err := p.look(ctx)
	if err != nil {
		return err
	}
	if err := p.apply(ctx, "resourcescalinggroup.yaml"); err != nil {
		return err
	}
	v, err := p.expect(ctx, scaled(2), complete(0, 1), nothingElse(false, 0, 1), recorded(),
		same("group 0 is what it was: the same Deployments, Services and pods, none restarted", before.identities()), measured(0, 1))
	if err != nil {
		return err
	}
	p.screen.Say("\nGroup 1, named as the document defines, in lower case:")
	for _, target := range targets {
		namespace, workload, service := names(1, target)
		p.screen.result("deployment/%s, service/%s in %s", workload, service, namespace)
	}
	p.show(v)
	return nil
}

func (p *player) scaleUp(ctx context.Context) error {
	if err := p.scaleTo(ctx, 4); err != nil {
		return err
	}
	v, err := p.expect(ctx, scaled(4), complete(0, 1, 2, 3), nothingElse(false, 0, 1, 2, 3), oneUnitPerGroup(0, 1, 2, 3), measured(0, 1, 2, 3))
	if err != nil {
		return err
	}
	p.show(v)
	return nil
}

// loads are requests per second to the prefill and decode pods of each group. The order of the values is neither that
// of the ids nor its reverse, so that the metric, the ids and chance give different victims.
var loads = map[int32]float64{0: 4, 1: 20, 2: 12, 3: 28}

// Tokens of each request. Short answers make the number of running requests settle within two seconds.
const (
	promptTokens = 256
	outputTokens = 32
)

func (p *player) scaleDownByMetric(ctx context.Context) error {
	p.screen.Say("Requests for each group come from the simulator's queueing model, evenly, with %d prompt and %d output tokens:",
		promptTokens, outputTokens)
	for _, id := range []int32{0, 1, 2, 3} {
		if err := p.load(ctx, id, loads[id], id == 0); err != nil {
			return err
		}
	}
	// The choice is on record with its second only, and Prometheus will be asked for the beginning of that one.
	v, err := p.expect(ctx, steady(ranked(0, 2, 1, 3), 2*time.Second))
	if err != nil {
		return err
	}
	p.show(v)

	since := time.Now()
	if err := p.scaleTo(ctx, 2); err != nil {
		return err
	}
	if v, err = p.expect(ctx, removed("Metric", "", 0, 2), told("Normal", "ScaleDown", since, "groups 0, 2 by Metric"),
		scaled(2), complete(1, 3), nothingElse(true, 1, 3)); err != nil {
		return err
	}
	if err := p.compareWithPrometheus(ctx, v); err != nil {
		return err
	}
	if event, found := v.event("ScaleDown", since); found {
		p.screen.command("kubectl get events -n %s --field-selector reason=ScaleDown", scalingNamespace)
		p.showEvent(event.Type, event.Note)
	}
	for _, id := range []int32{0, 2} {
		if err := p.unload(ctx, id); err != nil {
			return err
		}
	}
	p.screen.Say("\nThe callers of groups 0 and 2 have gone elsewhere: their load is stopped.")
	p.show(v)
	return nil
}

// compareWithPrometheus asks Prometheus itself for the values at the time of the choice, and shows them beside those on
// record.
func (p *player) compareWithPrometheus(ctx context.Context, v *view) error {
	record := v.rsg.Status.LastScaleDown
	samples, err := p.prometheus.vector(ctx, rankingQuery, record.Time.Time)
	if err != nil {
		return err
	}
	type rank struct {
		id       int32
		value    float64
		recorded string
	}
	var ranks []rank
	for _, s := range samples {
		id, err := strconv.ParseInt(s.labels["group_id"], 10, 32)
		if err != nil {
			return fmt.Errorf("reading the label group_id of Prometheus' answer: %w", err)
		}
		r := rank{id: int32(id), value: s.value}
		for _, known := range record.Values {
			if known.ID == r.id {
				r.recorded = known.Value
			}
		}
		ranks = append(ranks, r)
	}
	slices.SortFunc(ranks, func(a, b rank) int {
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		default:
			return 0
		}
	})
	var rows [][]string
	var lowest []int32
	for i, r := range ranks {
		fate := "stays"
		switch {
		case slices.Contains(record.Victims, r.id) && r.id == 0:
			fate = "goes: to zero replicas, since the workloads are the user's"
		case slices.Contains(record.Victims, r.id):
			fate = "goes: its Deployments and Services are deleted"
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), idText(r.id), strconv.FormatFloat(r.value, 'f', 2, 64), r.recorded, fate})
		if i < len(record.Victims) {
			lowest = append(lowest, r.id)
		}
	}
	p.screen.command(`curl -G $PROMETHEUS_URL/api/v1/query --data-urlencode time=%d --data-urlencode 'query=%s'`, record.Time.Unix(), rankingQuery)
	p.screen.table(renderTable([]string{"ORDER", "GROUP", "PROMETHEUS", "RECORDED", "SO THE GROUP"}, rows))
	text := fmt.Sprintf("the victims %v are the lowest by Prometheus' own answer for the time of the choice", record.Victims)
	if !slices.Equal(lowest, record.Victims) {
		reason := fmt.Sprintf("there groups %v are", lowest)
		p.screen.fails(text, reason)
		return fmt.Errorf("this does not hold: %s: %s", text, reason)
	}
	p.screen.holds(text)
	return nil
}

func (p *player) scaleDownBlind(ctx context.Context) error {
	p.screen.Say("By the metric group 1 would be next. Without it the annotation decides, which no group has, and then the highest id.")
	p.screen.command("lab stop-part %s", lab.Prometheus)
	if err := p.lab.StopPart(ctx, lab.Prometheus); err != nil {
		return fmt.Errorf("stopping Prometheus: %w", err)
	}
	if _, err := p.expect(ctx, noMetrics()); err != nil {
		return err
	}
	since := time.Now()
	if err := p.scaleTo(ctx, 1); err != nil {
		return err
	}
	v, err := p.expect(ctx, removed("GroupID", "PrometheusUnavailable", 3),
		told("Warning", "ScaleDown", since, "fallback to annotation", "fallback to max group-id"), scaled(1), complete(1), nothingElse(true, 1))
	if err != nil {
		return err
	}
	if event, found := v.event("ScaleDown", since); found {
		p.screen.command("kubectl get events -n %s --field-selector reason=ScaleDown", scalingNamespace)
		p.showEvent(event.Type, event.Note)
	}
	p.show(v)
	return p.unload(ctx, 3)
}

func (p *player) zeroAndBack(ctx context.Context) error {
	p.screen.command("lab start-part %s", lab.Prometheus)
	if err := p.lab.StartPart(ctx, lab.Prometheus); err != nil {
		return fmt.Errorf("starting Prometheus: %w", err)
	}
	if _, err := p.expect(ctx, measured(1)); err != nil {
		return err
	}
	if err := p.scaleTo(ctx, 0); err != nil {
		return err
	}
	v, err := p.expect(ctx, scaled(0), nothingElse(true))
	if err != nil {
		return err
	}
	if err := p.unload(ctx, 1); err != nil {
		return err
	}
	p.show(v)

	since := time.Now()
	if err := p.scaleTo(ctx, 2); err != nil {
		return err
	}
	if v, err = p.expect(ctx, told("Normal", "GroupRecovered", since), scaled(2), complete(0, 1), nothingElse(false, 0, 1),
		recorded(), measured(0, 1)); err != nil {
		return err
	}
	p.show(v)
	return nil
}

func (p *player) letGo(ctx context.Context) error {
	before, err := p.look(ctx)
	if err != nil {
		return err
	}
	p.screen.command("kubectl delete rsg/%s -n %s", rsgName, scalingNamespace)
	if err := p.dynamic.Resource(scalingGroups).Namespace(scalingNamespace).Delete(ctx, rsgName, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting the ResourceScalingGroup: %w", err)
	}
	p.screen.result("deleted")
	v, err := p.expect(ctx, recordsGone(), complete(0, 1), nothingElse(false, 0, 1),
		same("the workloads stay: the same Deployments, Services and pods", before.identities()))
	if err != nil {
		return err
	}
	p.show(v)
	return nil
}

// resume leaves something to look at: the groups that stayed are managed again, and busy.
func (p *player) resume(ctx context.Context) error {
	before, err := p.look(ctx)
	if err != nil {
		return err
	}
	if err := p.apply(ctx, "resourcescalinggroup.yaml"); err != nil {
		return err
	}
	for _, id := range []int32{0, 1} {
		if err := p.load(ctx, id, loads[id], false); err != nil {
			return err
		}
	}
	v, err := p.expect(ctx, scaled(2), complete(0, 1), nothingElse(false, 0, 1), recorded(),
		same("both groups are taken back: the same Deployments, Services and pods", before.identities()), ranked(0, 1))
	if err != nil {
		return err
	}
	p.show(v)
	return nil
}

// load sends a stream of requests to the pods of a group.
func (p *player) load(ctx context.Context, id int32, rate float64, inFull bool) error {
	namespace, _, _ := names(id, prefill)
	podsOf := func(target string) map[string]string {
		return map[string]string{labelComponent: target, labelName: rsgName, labelGroupID: idText(id)}
	}
	constant := func(tokens float64) *api.Lengths { return &api.Lengths{Mean: tokens, Distribution: "constant"} }
	load := api.Load{
		Name: loadName(id), Namespace: namespace, Prefill: podsOf(prefill), Decode: podsOf(decode),
		Rate: &rate, Arrivals: api.Even, PromptTokens: constant(promptTokens), OutputTokens: constant(outputTokens),
	}
	if inFull {
		text, err := json.Marshal(load)
		if err != nil {
			return fmt.Errorf("encoding a load: %w", err)
		}
		p.screen.command("curl $SIMULATOR_URL/load -d '%s'", text)
	} else {
		p.screen.command("curl $SIMULATOR_URL/load -d '{\"name\":\"%s\", ..., \"rate\":%g, ...}'", load.Name, rate)
	}
	return p.simulator.Load(ctx, load)
}

// unload drops the stream of a group with all that is left of it.
func (p *player) unload(ctx context.Context, id int32) error {
	_, err := p.simulator.StopLoad(ctx, loadName(id), true)
	return err
}

func loadName(id int32) string { return fmt.Sprintf("group-%d", id) }
