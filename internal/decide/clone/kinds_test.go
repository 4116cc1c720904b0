package clone

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

func kindOf(t *testing.T, apiVersion, kind string) Kind {
	t.Helper()
	k, err := KindOf(apiVersion, kind)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestCloneOfAStatefulSet(t *testing.T) {
	kind := kindOf(t, "apps/v1", "StatefulSet")
	snapshot, _ := TakeSnapshot([]Base{{Name: "decode", Kind: kind, Workload: load(t, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: dec, namespace: production}
spec:
  replicas: 2
  serviceName: dec
  podManagementPolicy: Parallel
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Retain}
  selector: {matchLabels: {app: prefill}}
  template:
    metadata: {labels: {app: prefill}}
    spec: {containers: [{name: vllm, image: vllm}]}
  volumeClaimTemplates:
  - metadata: {name: cache}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`)}}, []corev1.Service{service("dec", func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })})
	got := build(t, snapshot, Group{ID: 1, Kinds: []Kind{kind}, Replicas: []int32{2}})
	spec := got.Object["spec"].(map[string]any)
	if spec["serviceName"] != "dec-prefill-decode-1" {
		t.Errorf("serviceName %v, want the cloned Service dec-prefill-decode-1", spec["serviceName"])
	}
	if spec["podManagementPolicy"] != "Parallel" || spec["persistentVolumeClaimRetentionPolicy"] == nil || spec["volumeClaimTemplates"] == nil {
		t.Errorf("the clone lost settings of the StatefulSet: %v", spec)
	}
	if diff := cmp.Diff([]string{"cache"}, kind.ClaimTemplates(got)); diff != "" {
		t.Errorf("claim templates (-want +got):\n%s", diff)
	}
}

const lws = `
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: dec, namespace: production}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 4
    workerTemplate:
      metadata: {labels: {app: prefill}}
      spec: {containers: [{name: vllm, image: vllm}]}
  networkConfig: {subdomainPolicy: Shared}
status: {readyReplicas: 2}
`

func TestCloneOfALeaderWorkerSet(t *testing.T) {
	kind := kindOf(t, "leaderworkerset.x-k8s.io/v1", "leaderworkerset")
	for name, leader := range map[string]bool{"without a leader template none is made": false, "with one both are labelled": true} {
		t.Run(name, func(t *testing.T) {
			original := load(t, lws)
			worker, _, _ := unstructured.NestedMap(original.Object, "spec", "leaderWorkerTemplate", "workerTemplate")
			if leader {
				_ = unstructured.SetNestedMap(original.Object, worker, "spec", "leaderWorkerTemplate", "leaderTemplate")
			}
			snapshot, _ := TakeSnapshot([]Base{{Name: "decode", Kind: kind, Workload: original}}, nil)
			got := build(t, snapshot, Group{ID: 1, Kinds: []Kind{kind}, Replicas: []int32{2}})
			for field, want := range map[string]bool{"leaderTemplate": leader, "workerTemplate": true} {
				labels, _, _ := unstructured.NestedStringMap(got.Object, "spec", "leaderWorkerTemplate", field, "metadata", "labels")
				if (labels[v1alpha1.LabelGroupID] == "1") != want {
					t.Errorf("%s has labels %v, group labels wanted: %v", field, labels, want)
				}
				_, exists, _ := unstructured.NestedMap(got.Object, "spec", "leaderWorkerTemplate", field)
				if exists != want {
					t.Errorf("%s exists: %v, want %v", field, exists, want)
				}
			}
			if size, _, _ := unstructured.NestedInt64(got.Object, "spec", "leaderWorkerTemplate", "size"); size != 4 {
				t.Errorf("size %d, want 4", size)
			}
		})
	}
	if got := kind.Available(load(t, lws)); got != 2 {
		t.Errorf("available %d, want 2", got)
	}
	if err := (Owner{GroupName: "pd"}).CheckWorkloadName(kind, strings.Repeat("x", 40)); err == nil || !strings.Contains(err.Error(), "at most 47") {
		t.Errorf("error %v, want one that names the limit of 47", err)
	}
	if err := (Owner{GroupName: "1pd"}).CheckWorkloadName(kind, "x"); err == nil {
		t.Error("a LeaderWorkerSet whose name begins with a digit was accepted")
	}
}

func TestResolve(t *testing.T) {
	role := func(sub v1alpha1.Subresource) v1alpha1.ResourceRef {
		sub.Type = v1alpha1.SubresourceRoleBasedGroup
		return v1alpha1.ResourceRef{APIVersion: "workloads.x-k8s.io/v1alpha1", Kind: "RoleBasedGroup", Name: "llm", Subresource: &sub}
	}
	cases := map[string]struct {
		ref  v1alpha1.ResourceRef
		kind string
		name string
		err  string
	}{
		"a Deployment":                     {ref: v1alpha1.ResourceRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "a"}, kind: "Deployment", name: "a"},
		"a kind in lower case":             {ref: v1alpha1.ResourceRef{APIVersion: "apps/v1", Kind: "deployment", Name: "a"}, kind: "Deployment", name: "a"},
		"a role is a StatefulSet":          {ref: role(v1alpha1.Subresource{RoleName: "decode"}), kind: "StatefulSet", name: "llm-decode"},
		"or what the reference says":       {ref: role(v1alpha1.Subresource{RoleName: "decode", WorkloadKind: "LeaderWorkerSet"}), kind: "LeaderWorkerSet", name: "llm-decode"},
		"under the name that it gives":     {ref: role(v1alpha1.Subresource{WorkloadName: "x"}), kind: "StatefulSet", name: "x"},
		"a long name is cut":               {ref: role(v1alpha1.Subresource{RoleName: strings.Repeat("r", 58) + "-x"}), kind: "StatefulSet", name: "llm-" + strings.Repeat("r", 58)},
		"a group without a role":           {ref: role(v1alpha1.Subresource{}), err: "roleName"},
		"a subresource of a Deployment":    {ref: v1alpha1.ResourceRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "a", Subresource: &v1alpha1.Subresource{}}, err: "remove it"},
		"a kind that cannot be replicated": {ref: v1alpha1.ResourceRef{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "a"}, err: "apps/v1 Deployment, apps/v1 StatefulSet"},
		"a group of another API":           {ref: v1alpha1.ResourceRef{APIVersion: "example.com/v1", Kind: "Deployment", Name: "a"}, err: "cannot be replicated"},
		"an apiVersion of three parts":     {ref: v1alpha1.ResourceRef{APIVersion: "a/b/c", Kind: "Deployment", Name: "a"}, err: "group/version"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Resolve(tc.ref)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Kind.GroupVersionKind.Kind != tc.kind || got.Name != tc.name {
				t.Errorf("%s %s, want %s %s", got.Kind.GroupVersionKind.Kind, got.Name, tc.kind, tc.name)
			}
		})
	}
}

func TestRewriteHosts(t *testing.T) {
	hosts := []host{
		{name: "decode", namespace: "production", newName: "decode-pd-1", newNamespace: "scaling"},
		{name: "decode-svc", namespace: "production", newName: "decode-svc-pd-1", newNamespace: "scaling"},
	}
	cases := map[string]string{
		"decode:8000":                             "decode-pd-1:8000",
		"decode-svc:8000":                         "decode-svc-pd-1:8000",
		"http://decode":                           "http://decode-pd-1",
		"http://decode/v1?x=decode":               "http://decode-pd-1/v1?x=decode",
		"http://user:pw@decode/v1":                "http://user:pw@decode-pd-1/v1",
		"tcp://decode:8000,tcp://decode-svc:9":    "tcp://decode-pd-1:8000,tcp://decode-svc-pd-1:9",
		"decode.production":                       "decode-pd-1.scaling",
		"decode.production.svc.cluster.local:80":  "decode-pd-1.scaling.svc.cluster.local:80",
		"http://decode.production.svc/x":          "http://decode-pd-1.scaling.svc/x",
		"decode.svc":                              "decode-pd-1.svc",
		"--peer=decode:8000":                      "--peer=decode-pd-1:8000",
		"--role=decode":                           "--role=decode",
		"decode":                                  "decode",
		"decode:role":                             "decode:role",
		"decode.other.svc":                        "decode.other.svc",
		"http://decode.other:80":                  "http://decode.other:80",
		"predecode:8000":                          "predecode:8000",
		"my-decode:8000":                          "my-decode:8000",
		"decode2:8000":                            "decode2:8000",
		"decode-0.decode.production.svc":          "decode-0.decode.production.svc",
		"decode.production-eu:1":                  "decode.production-eu:1",
		"mail a@decode now":                       "mail a@decode now",
		"":                                        "",
		"a b=decode:1 c=http://decode-svc#decode": "a b=decode-pd-1:1 c=http://decode-svc-pd-1#decode",
	}
	for in, want := range cases {
		if got := rewriteHosts(in, hosts); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func FuzzRewriteHosts(f *testing.F) {
	f.Add("http://a@decode:80/decode")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "decode") {
			rewriteHosts(text, []host{{name: "decode", namespace: "n", newName: "decode-pd-1", newNamespace: "m"}})
			return
		}
		if got := rewriteHosts(text, []host{{name: "decode", namespace: "n", newName: "x", newNamespace: "m"}}); got != text {
			t.Errorf("%q became %q without naming the Service", text, got)
		}
	})
}

func TestRewriteIsAskedFor(t *testing.T) {
	kind := deployment(t)
	original := load(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: prefill, namespace: production}
spec:
  selector: {matchLabels: {app: prefill}}
  template:
    metadata: {labels: {app: prefill}}
    spec: {containers: [{name: c, image: c, args: ["--peer=llm:8000"], env: [{name: PEER, value: "http://llm.production"}]}]}
`)
	snapshot, _ := TakeSnapshot([]Base{{Name: "prefill", Kind: kind, Workload: original}}, []corev1.Service{service("llm", nil)})
	for _, rewrite := range []bool{false, true} {
		got := build(t, snapshot, Group{ID: 1, Kinds: []Kind{kind}, Replicas: []int32{1}, RewriteServiceReferences: rewrite})
		containers, _, _ := unstructured.NestedSlice(got.Object, "spec", "template", "spec", "containers")
		c := containers[0].(map[string]any)
		env := c["env"].([]any)
		args, peer := c["args"].([]any)[0], env[len(env)-1].(map[string]any)["value"]
		if wantArgs, wantPeer := "--peer=llm:8000", "http://llm.production"; !rewrite && (args != wantArgs || peer != wantPeer) {
			t.Errorf("not asked for, and rewritten: %v %v", args, peer)
		}
		if wantArgs, wantPeer := "--peer=llm-prefill-decode-1:8000", "http://llm-prefill-decode-1.scaling-system"; rewrite && (args != wantArgs || peer != wantPeer) {
			t.Errorf("rewritten to %v %v, want %s %s", args, peer, wantArgs, wantPeer)
		}
	}
}

func TestReferences(t *testing.T) {
	kind := deployment(t)
	snapshot, _ := TakeSnapshot([]Base{{Name: "a", Kind: kind, Workload: load(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  template:
    spec:
      serviceAccountName: runner
      imagePullSecrets: [{name: pull}]
      initContainers: [{name: i, envFrom: [{secretRef: {name: s1}}, {configMapRef: {name: maybe, optional: true}}]}]
      containers:
      - name: c
        envFrom: [{configMapRef: {name: c1}}]
        env:
        - {name: A, valueFrom: {configMapKeyRef: {name: c2, key: k}}}
        - {name: B, valueFrom: {secretKeyRef: {name: s1, key: k}}}
        - {name: C, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
      volumes:
      - {name: v1, configMap: {name: c3}}
      - {name: v2, secret: {secretName: s2}}
      - {name: v3, persistentVolumeClaim: {claimName: data}}
      - {name: v4, projected: {sources: [{secret: {name: s3}}, {configMap: {name: c4}}]}}
      - {name: v5, emptyDir: {}}
`)}}, nil)
	want := []Reference{
		{"ConfigMap", "c1"}, {"ConfigMap", "c2"}, {"ConfigMap", "c3"}, {"ConfigMap", "c4"}, {"PersistentVolumeClaim", "data"},
		{"Secret", "pull"}, {"Secret", "s1"}, {"Secret", "s2"}, {"Secret", "s3"}, {"ServiceAccount", "runner"},
	}
	if diff := cmp.Diff(want, snapshot.References([]Kind{kind})); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
}
