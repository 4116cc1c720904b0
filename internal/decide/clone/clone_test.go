package clone

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

var owner = Owner{Namespace: "scaling-system", Name: "llm", GroupName: "Prefill-Decode"}

// base is a Deployment with everything on it that a copy must not have.
const base = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: llm-prefill
  namespace: production
  uid: 5b1b1a3e
  resourceVersion: "12"
  generation: 4
  finalizers: [example.com/keep]
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: y}]
  labels:
    app: prefill
    app.kubernetes.io/instance: release
    app.kubernetes.io/managed-by: Helm
    helm.sh/chart: llm-1
    argocd.argoproj.io/instance: llm
    kustomize.toolkit.fluxcd.io/name: llm
    rsg.io/group-id: "0"
    team: serving
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    deployment.kubernetes.io/revision: "3"
    meta.helm.sh/release-name: release
    argocd.argoproj.io/tracking-id: llm
    autoscaling.rsg.metric.values: "10"
    rsg.io/baseline-replicas: "3"
    example.com/contact: serving
spec:
  replicas: 3
  paused: true
  minReadySeconds: 7
  selector: {matchLabels: {app: prefill, app.kubernetes.io/instance: release}}
  template:
    metadata:
      labels: {app: prefill, app.kubernetes.io/instance: release}
    spec:
      initContainers: [{name: fetch, image: fetch}]
      containers:
      - name: vllm
        image: vllm
        env:
        - {name: RSG_GROUP_ID, value: stale}
        - {name: PEER, value: "peer-$(RSG_GROUP_ID)"}
        resources: {requests: {cpu: "0.2"}}
status: {replicas: 3, availableReplicas: 3, observedGeneration: 4}
`

func load(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return u
}

func deployment(t *testing.T) Kind {
	t.Helper()
	kind, err := KindOf("apps/v1", "Deployment")
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// build returns the group's first workload.
func build(t *testing.T, s Snapshot, g Group) *unstructured.Unstructured {
	t.Helper()
	g.Owner, g.Revision = owner, "rev"
	_, workloads, err := s.Build(g)
	if err != nil {
		t.Fatal(err)
	}
	return workloads[0]
}

func TestCloneOfADeployment(t *testing.T) {
	kind := deployment(t)
	original := load(t, base)
	before := original.DeepCopy()
	snapshot, _ := TakeSnapshot([]Base{{Name: "prefill", Kind: kind, Workload: original}}, nil)
	got := build(t, snapshot, Group{ID: 2, Kinds: []Kind{kind}, Replicas: []int32{5}})
	want := load(t, `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: prefill-decode-llm-prefill-2
  namespace: scaling-system
  labels:
    app: prefill
    team: serving
    rsg.io/name: llm
    rsg.io/namespace: scaling-system
    rsg.io/group-name: Prefill-Decode
    rsg.io/group-id: "2"
  annotations:
    example.com/contact: serving
    rsg.io/revision: rev
    rsg.io/services: ""
spec:
  replicas: 5
  minReadySeconds: 7
  selector:
    matchLabels: {app: prefill, app.kubernetes.io/instance: release, rsg.io/name: llm, rsg.io/namespace: scaling-system, rsg.io/group-id: "2"}
  template:
    metadata:
      labels:
        app: prefill
        app.kubernetes.io/instance: release
        rsg.io/name: llm
        rsg.io/namespace: scaling-system
        rsg.io/group-name: Prefill-Decode
        rsg.io/group-id: "2"
    spec:
      initContainers:
      - name: fetch
        image: fetch
        env:
        - {name: RSG_NAME, value: llm}
        - {name: RSG_GROUP_NAME, value: Prefill-Decode}
        - {name: RSG_GROUP_ID, value: "2"}
      containers:
      - name: vllm
        image: vllm
        env:
        - {name: RSG_NAME, value: llm}
        - {name: RSG_GROUP_NAME, value: Prefill-Decode}
        - {name: RSG_GROUP_ID, value: "2"}
        - {name: PEER, value: "peer-$(RSG_GROUP_ID)"}
        resources: {requests: {cpu: "0.2"}}
`)
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Errorf("clone (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before.Object, original.Object); diff != "" {
		t.Errorf("the original was changed (-before +after):\n%s", diff)
	}
}

func TestCloneNeverSharesASelector(t *testing.T) {
	kind := deployment(t)
	snapshot, _ := TakeSnapshot([]Base{{Name: "prefill", Kind: kind, Workload: load(t, base)}}, nil)
	seen := map[string]int32{}
	for id := int32(1); id < 50; id++ {
		got := build(t, snapshot, Group{ID: id, Kinds: []Kind{kind}, Replicas: []int32{1}})
		selector, _, _ := unstructured.NestedStringMap(got.Object, "spec", "selector", "matchLabels")
		text, _ := json.Marshal(selector)
		if other, taken := seen[string(text)]; taken {
			t.Fatalf("groups %d and %d share selector %s", other, id, text)
		}
		seen[string(text)] = id
	}
}

func service(name string, change func(*corev1.Service)) corev1.Service {
	svc := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "production", Labels: map[string]string{"app": "prefill", "helm.sh/chart": "x"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": "prefill"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8000)}}},
	}
	if change != nil {
		change(&svc)
	}
	return svc
}

func TestSnapshotOfServices(t *testing.T) {
	bases := []Base{{Name: "prefill", Kind: deployment(t), Workload: load(t, base)}}
	cases := map[string]struct {
		service corev1.Service
		want    *corev1.ServiceSpec
		dropped []string
	}{
		"what is allocated to one Service alone is cleared": {
			service: service("lb", func(s *corev1.Service) {
				s.Spec.Type = corev1.ServiceTypeLoadBalancer
				s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.96.0.9", []string{"10.96.0.9"}
				s.Spec.Ports[0].NodePort = 31315
				s.Spec.HealthCheckNodePort = 30591
				s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
				s.Spec.LoadBalancerIP = "192.0.2.1"
				s.Spec.ExternalIPs = []string{"192.0.2.2"}
			}),
			want: &corev1.ServiceSpec{
				Type:                  corev1.ServiceTypeLoadBalancer,
				Selector:              map[string]string{"app": "prefill"},
				Ports:                 []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8000)}},
				ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
			},
			dropped: []string{"externalIPs", "loadBalancerIP"},
		},
		"a headless Service stays headless": {
			service: service("headless", func(s *corev1.Service) {
				s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
				s.Spec.PublishNotReadyAddresses = true
			}),
			want: &corev1.ServiceSpec{
				Type:                     corev1.ServiceTypeClusterIP,
				Selector:                 map[string]string{"app": "prefill"},
				Ports:                    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8000)}},
				ClusterIP:                corev1.ClusterIPNone,
				PublishNotReadyAddresses: true,
			},
		},
		"a Service of other pods is not taken":        {service: service("other", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "decode"} })},
		"a Service without a selector is not taken":   {service: service("none", func(s *corev1.Service) { s.Spec.Selector = nil })},
		"an ExternalName Service is not taken":        {service: service("dns", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName })},
		"a Service of another namespace is not taken": {service: service("far", func(s *corev1.Service) { s.Namespace = "elsewhere" })},
		"a Service of a clone is not taken":           {service: service("clone", func(s *corev1.Service) { s.Spec.Selector = owner.selectorLabels(1) })},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			snapshot, dropped := TakeSnapshot(bases, []corev1.Service{tc.service})
			if tc.want == nil {
				if len(snapshot.Services) != 0 {
					t.Fatalf("took %v", snapshot.Services)
				}
				return
			}
			if len(snapshot.Services) != 1 {
				t.Fatalf("took %d Services, want 1", len(snapshot.Services))
			}
			if diff := cmp.Diff(*tc.want, snapshot.Services[0].Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.dropped, dropped[tc.service.Name]); diff != "" {
				t.Errorf("dropped settings (-want +got):\n%s", diff)
			}
			got := snapshot.Services[0].build(Group{Owner: owner, ID: 3, Revision: "rev"})
			if want := tc.service.Name + "-prefill-decode-3"; got.Name != want || got.Namespace != "scaling-system" {
				t.Errorf("clone is %s/%s, want scaling-system/%s", got.Namespace, got.Name, want)
			}
			if diff := cmp.Diff(map[string]string{"app": "prefill", "rsg.io/name": "llm", "rsg.io/namespace": "scaling-system", "rsg.io/group-id": "3"}, got.Spec.Selector); diff != "" {
				t.Errorf("selector of the clone (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSnapshotSurvivesStorage(t *testing.T) {
	kind := deployment(t)
	original := load(t, base)
	snapshot, _ := TakeSnapshot([]Base{{Name: "prefill", Kind: kind, Workload: original}}, []corev1.Service{service("llm-prefill", nil)})
	encoded, err := snapshot.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := DecodeSnapshot(encoded, []string{"prefill"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := read.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if Hash(again) != Hash(encoded) {
		t.Errorf("reading and writing a snapshot changed it:\n%s\n%s", encoded, again)
	}
	if read.Targets[0].Drifted(kind, original) {
		t.Error("an unchanged base is reported as drifted")
	}
	scaled := original.DeepCopy()
	_ = unstructured.SetNestedField(scaled.Object, int64(9), "spec", "replicas")
	scaled.SetLabels(merged(scaled.GetLabels(), owner.Labels(0)))
	if read.Targets[0].Drifted(kind, scaled) {
		t.Error("a base with other replicas and group labels is reported as drifted")
	}
	edited := original.DeepCopy()
	_ = unstructured.SetNestedField(edited.Object, int64(8), "spec", "minReadySeconds")
	if !read.Targets[0].Drifted(kind, edited) {
		t.Error("an edited base is not reported as drifted")
	}
	for name, bad := range map[string]string{
		"no JSON":         "x",
		"other targets":   `{"targets":[{"name":"decode","workload":{"apiVersion":"apps/v1","kind":"Deployment"}}]}`,
		"no workload":     `{"targets":[{"name":"prefill"}]}`,
		"missing targets": `{}`,
	} {
		if _, err := DecodeSnapshot([]byte(bad), []string{"prefill"}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestWorkloadsNameTheirServices(t *testing.T) {
	kind := deployment(t)
	services := []ServiceSnapshot{{Name: "llm-decode", Namespace: "production"}, {Name: "llm-prefill", Namespace: "production"}}
	for want, snapshot := range map[string]Snapshot{
		"": {},
		"llm-decode-prefill-decode-2 llm-prefill-prefill-decode-2": {Services: services},
	} {
		snapshot.Targets = []TargetSnapshot{{Name: "prefill", Workload: reduceWorkload(kind, load(t, base))}}
		got, known := ServicesOf(build(t, snapshot, Group{ID: 2, Kinds: []Kind{kind}, Replicas: []int32{1}}))
		if !known || strings.Join(got, " ") != want {
			t.Errorf("the copy names Services %q (%t), want %q", got, known, want)
		}
	}
	if got, known := ServicesOf(load(t, base)); known || got != nil {
		t.Errorf("a workload that is no copy names Services %q (%t)", got, known)
	}
}

func TestNames(t *testing.T) {
	kind := deployment(t)
	cases := map[string]struct {
		group, original string
		workloadErr     string
		serviceErr      string
	}{
		"the document's names, lower-cased":     {group: "Prefill-Decode", original: "llm-prefill"},
		"a Service name may not pass 63":        {group: strings.Repeat("g", 30), original: strings.Repeat("s", 28), serviceErr: "64 characters"},
		"63 is enough":                          {group: strings.Repeat("g", 30), original: strings.Repeat("s", 27)},
		"a Deployment name may not pass 253":    {group: strings.Repeat("g", 60), original: strings.Repeat("w", 190), workloadErr: "256 characters", serviceErr: "not legal"},
		"an underscore is not legal in a name":  {group: "a_b", original: "llm", workloadErr: "not legal", serviceErr: "not legal"},
		"a Service name must begin with letter": {group: "pd", original: "1st", serviceErr: "not legal"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := Owner{Namespace: "ns", Name: "rsg", GroupName: tc.group}
			check := func(what, want string, err error) {
				switch {
				case want == "" && err != nil:
					t.Errorf("%s: %v", what, err)
				case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), tc.group)):
					t.Errorf("%s: %v, want one that has %q and the group name", what, err, want)
				}
			}
			check("workload", tc.workloadErr, o.CheckWorkloadName(kind, tc.original))
			check("Service", tc.serviceErr, o.CheckServiceName(tc.original))
		})
	}
}

func TestIDOf(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(map[string]string)
		id     int32
		ours   bool
	}{
		"its own label":           {func(map[string]string) {}, 7, true},
		"another group name":      {func(l map[string]string) { l[v1alpha1.LabelGroupName] = "prefill-decode" }, 0, false},
		"another namespace":       {func(l map[string]string) { l[v1alpha1.LabelNamespace] = "x" }, 0, false},
		"no id":                   {func(l map[string]string) { delete(l, v1alpha1.LabelGroupID) }, 0, false},
		"an id with a zero ahead": {func(l map[string]string) { l[v1alpha1.LabelGroupID] = "07" }, 0, false},
		"a negative id":           {func(l map[string]string) { l[v1alpha1.LabelGroupID] = "-1" }, 0, false},
		"an id beyond the last":   {func(l map[string]string) { l[v1alpha1.LabelGroupID] = "10000" }, 0, false},
	} {
		labels := owner.Labels(7)
		tc.change(labels)
		if id, ours := owner.IDOf(labels); id != tc.id || ours != tc.ours {
			t.Errorf("%s: %d %v, want %d %v", name, id, ours, tc.id, tc.ours)
		}
	}
}

func TestReplicas(t *testing.T) {
	for text, want := range map[string]int32{
		"spec: {replicas: 3}":   3,
		"spec: {replicas: 0}":   0,
		"spec: {}":              1,
		"metadata: {name: a}":   1,
		"spec: {replicas: two}": 1,
	} {
		if got := Replicas(load(t, "{apiVersion: apps/v1, kind: Deployment, "+text+"}")); got != want {
			t.Errorf("%s has %d replicas, want %d", text, got, want)
		}
	}
}

func TestTrouble(t *testing.T) {
	for text, want := range map[string]string{
		"status: {}":                 "",
		"status: {conditions: lost}": "",
		"status: {conditions: [{type: Progressing, status: 'True', reason: NewReplicaSetAvailable, message: m}]}":                                                                    "",
		"status: {conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded, message: m}]}":                                                                 "ProgressDeadlineExceeded: m",
		"status: {conditions: [{type: Progressing, status: 'False', reason: P, message: m}, {type: ReplicaFailure, status: 'True', reason: FailedCreate, message: exceeded quota}]}": "FailedCreate: exceeded quota",
	} {
		if got := Trouble(load(t, "{apiVersion: apps/v1, kind: Deployment, "+text+"}")); got != want {
			t.Errorf("%s gives %q, want %q", text, got, want)
		}
	}
}

func TestAvailableIsOfThePresentSpec(t *testing.T) {
	w, kind := load(t, base), deployment(t)
	if got := kind.Available(w); got != 3 {
		t.Errorf("available %d, want 3", got)
	}
	w.SetGeneration(5)
	if got := kind.Available(w); got != 0 {
		t.Errorf("available %d of a spec that was not seen yet, want 0", got)
	}
}
