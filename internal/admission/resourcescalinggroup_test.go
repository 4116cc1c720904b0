package admission

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

// reviews answers SubjectAccessReviews and records them.
type reviews struct {
	mu     sync.Mutex
	asked  []authorizationv1.SubjectAccessReviewSpec
	answer func(authorizationv1.ResourceAttributes) (bool, error)
}

func (r *reviews) create(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
	review, ok := obj.(*authorizationv1.SubjectAccessReview)
	if !ok {
		return c.Create(ctx, obj, opts...)
	}
	allowed, err := r.answer(*review.Spec.ResourceAttributes)
	review.Status.Allowed = allowed
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, review.Spec)
	return err
}

func newValidator(t *testing.T, crossNamespace config.CrossNamespace, r *reviews, objects ...client.Object) *ResourceScalingGroups {
	t.Helper()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&v1alpha1.ResourceScalingGroup{}, indexTargets, targetKeys).
		WithInterceptorFuncs(interceptor.Funcs{Create: r.create}).Build()
	return &ResourceScalingGroups{Cache: c, API: c, Writers: Writers{Reviews: c, CrossNamespace: crossNamespace}, Namespace: "scaling-system"}
}

func requestOf(ctx context.Context, user string) context.Context {
	return admission.NewContextWithRequest(ctx, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UserInfo: authenticationv1.UserInfo{Username: user, UID: "1", Groups: []string{"team"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a"}}},
	}})
}

func elsewhere() *v1alpha1.ResourceScalingGroup {
	return testkit.MakeRSG("dev", "llm").Target("prefill", "", "llm-prefill").Target("decode", "prod", "llm-decode").Obj()
}

func yes(authorizationv1.ResourceAttributes) (bool, error) { return true, nil }

func TestAccessOfTheWriter(t *testing.T) {
	cases := map[string]struct {
		crossNamespace config.CrossNamespace
		answer         func(authorizationv1.ResourceAttributes) (bool, error)
		anonymous      bool
		want           string
		asked          int
	}{
		"who has the rights":           {crossNamespace: config.CrossNamespaceAdmitted, answer: yes, asked: 3},
		"nobody where all are trusted": {crossNamespace: config.CrossNamespaceTrusted},
		"nobody where none may": {
			crossNamespace: config.CrossNamespaceDenied,
			want:           `spec.targetResources[1].resourceRef: Forbidden: must be in namespace dev, since the operator has set crossNamespace: Denied`,
		},
		"who has not all of them": {
			crossNamespace: config.CrossNamespaceAdmitted, asked: 3,
			answer: func(a authorizationv1.ResourceAttributes) (bool, error) { return a.Verb != "create", nil },
			want:   `user "alice" must be allowed to: create deployments.apps in namespace dev; ask for that right`,
		},
		"of whom it cannot be found out": {
			crossNamespace: config.CrossNamespaceAdmitted, asked: 3,
			answer: func(authorizationv1.ResourceAttributes) (bool, error) {
				return false, errors.New("the server is on fire")
			},
			want: `spec.targetResources[1].resourceRef: Forbidden: is in another namespace, and whether user "alice" is allowed to do this could not be found out, so it is refused: ` +
				`update deployments.apps/scale "llm-decode" in namespace prod (asking for a SubjectAccessReview: the server is on fire)`,
		},
		"who is not known": {
			crossNamespace: config.CrossNamespaceAdmitted, anonymous: true,
			want: `spec.targetResources[1].resourceRef: Forbidden: who writes this is not known, so access to another namespace is refused`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := &reviews{answer: tc.answer}
			v := newValidator(t, tc.crossNamespace, r)
			ctx := t.Context()
			if !tc.anonymous {
				ctx = requestOf(ctx, "alice")
			}
			_, err := v.ValidateCreate(ctx, elsewhere())
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error is\n%v\nwant one that holds\n%s", err, tc.want)
			}
			if len(r.asked) != tc.asked {
				t.Errorf("%d reviews were asked for, want %d", len(r.asked), tc.asked)
			}
			for _, spec := range r.asked {
				if spec.User != "alice" || spec.UID != "1" || len(spec.Groups) != 1 || len(spec.Extra["scopes"]) != 1 {
					t.Errorf("a review was asked for %+v, want all that is known of the user", spec)
				}
			}
		})
	}
}

func TestARightIsAskedForOnce(t *testing.T) {
	r := &reviews{answer: yes}
	v := newValidator(t, config.CrossNamespaceAdmitted, r)
	rsg := elsewhere()
	rsg.Spec.TargetResources[0].ResourceRef.Namespace = "prod"
	if _, err := v.ValidateCreate(requestOf(t.Context(), "alice"), rsg); err != nil {
		t.Fatal(err)
	}
	if len(r.asked) != 5 { // two for each target, and one to create their kind
		t.Errorf("%d reviews were asked for, want 5", len(r.asked))
	}
}

func TestOnlyChangesOfTheSpecAreLookedAt(t *testing.T) {
	r := &reviews{answer: func(authorizationv1.ResourceAttributes) (bool, error) { return false, nil }}
	v := newValidator(t, config.CrossNamespaceAdmitted, r)
	ctx := requestOf(t.Context(), "bob")
	labelled := elsewhere()
	labelled.Labels = map[string]string{"a": "b"}
	paused := true
	going := elsewhere()
	going.DeletionTimestamp = new(metav1.Now())
	going.Spec.Paused = &paused
	for name, rsg := range map[string]*v1alpha1.ResourceScalingGroup{"a label": labelled, "one that is going": going} {
		if _, err := v.ValidateUpdate(ctx, elsewhere(), rsg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := v.ValidateDelete(ctx, elsewhere()); err != nil {
		t.Errorf("deletion: %v", err)
	}
	changed := elsewhere()
	changed.Spec.Paused = &paused
	if _, err := v.ValidateUpdate(ctx, elsewhere(), changed); err == nil {
		t.Error("a change of the spec by somebody without rights was accepted")
	}
}

func TestAConflictThatStandsDoesNotStopOtherChanges(t *testing.T) {
	target := func(name string) *v1alpha1.ResourceScalingGroup {
		return testkit.MakeRSG("dev", name).Target("prefill", "", "llm-prefill").Obj()
	}
	v := newValidator(t, config.CrossNamespaceAdmitted, &reviews{answer: yes}, target("first"))
	const already = `spec.targetResources[0].resourceRef: Invalid value: "Deployment dev/llm-prefill": is managed by ResourceScalingGroup dev/first of type GroupReplication already`
	if _, err := v.ValidateCreate(t.Context(), target("second")); err == nil || !strings.Contains(err.Error(), already) {
		t.Errorf("error is %v, want one that holds %s", err, already)
	}
	paused := target("second")
	paused.Spec.Paused = new(bool)
	*paused.Spec.Paused = true
	if _, err := v.ValidateUpdate(t.Context(), target("second"), paused); err != nil {
		t.Errorf("a pause is refused: %v", err)
	}
}

func TestALookThatFailsRefuses(t *testing.T) {
	v := newValidator(t, config.CrossNamespaceAdmitted, &reviews{answer: yes})
	v.Cache = fake.NewClientBuilder().WithScheme(runtime.NewScheme()).Build() // knows no kind
	_, err := v.ValidateCreate(t.Context(), testkit.MakeRSG("dev", "llm").Target("prefill", "", "llm-prefill").Obj())
	if err == nil || !strings.Contains(err.Error(), "looking for other ResourceScalingGroups of this target, try again") {
		t.Errorf("error is %v, want one that says what could not be read", err)
	}
}
