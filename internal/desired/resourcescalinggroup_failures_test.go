package desired

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}

func forbidden(why string) error { return apierrors.NewForbidden(deployments, "a", errors.New(why)) }

func TestDescribeFailures(t *testing.T) {
	quota := forbidden("exceeded quota: few")
	const quotaText = `quota: deployments.apps "a" is forbidden: exceeded quota: few`
	cases := map[string]struct {
		failures []*GroupFailure
		want     string
	}{
		"one": {
			[]*GroupFailure{{ID: 1, Object: "Deployment ns/a", Err: quota}},
			"group 1 lacks Deployment ns/a: " + quotaText,
		},
		"two objects of one group": {
			[]*GroupFailure{{ID: 1, Object: "Deployment ns/a", Err: quota}, {ID: 1, Object: "Service ns/b", Err: errors.New("x")}},
			"group 1 lacks Deployment ns/a, Service ns/b: " + quotaText,
		},
		"more objects than are named": {
			[]*GroupFailure{{ID: 1, Object: "a", Err: quota}, {ID: 1, Object: "b"}, {ID: 1, Object: "c"}, {ID: 1, Object: "d"}, {ID: 1, Object: "e"}, {ID: 1, Object: "f"}},
			"group 1 lacks a, b, c, d and 2 more: " + quotaText,
		},
		"more groups than are named, in any order": {
			[]*GroupFailure{{ID: 5, Object: "e", Err: quota}, {ID: 4, Object: "d", Err: quota}, {ID: 1, Object: "a", Err: quota}, {ID: 2, Object: "b", Err: quota}, {ID: 3, Object: "c", Err: quota}},
			"group 1 lacks a: " + quotaText + "; group 2 lacks b: " + quotaText + "; group 3 lacks c: " + quotaText + "; and 2 groups more",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := DescribeFailures(tc.failures); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestCause(t *testing.T) {
	cases := map[string]struct {
		err     error
		cause   string
		refused bool
	}{
		"a quota":               {forbidden("exceeded quota: few"), "quota", true},
		"a webhook that denies": {forbidden(`admission webhook "a.example.org" denied the request: no`), "admission", true},
		"a webhook that is away": {
			apierrors.NewInternalError(errors.New(`failed calling webhook "a.example.org": connection refused`)), "admission", false,
		},
		"a policy":               {forbidden("ValidatingAdmissionPolicy 'a' with binding 'b' denied request: no"), "admission", true},
		"an admission plug-in":   {forbidden("maximum memory usage per Pod is 1Gi"), "admission", true},
		"missing rights":         {forbidden(`User "a" cannot create resource "deployments"`), "forbidden", true},
		"a name that is taken":   {apierrors.NewAlreadyExists(deployments, "a"), "conflict", true},
		"a field that is wrong":  {apierrors.NewInvalid(schema.GroupKind{}, "a", nil), "invalid", true},
		"an object that is gone": {apierrors.NewNotFound(deployments, "a"), "notfound", false},
		"a server that is busy":  {apierrors.NewTooManyRequests("later", 1), "toomanyrequests", false},
		"a server that is away":  {errors.New("connection refused"), "no answer", false},
		"a write that came late": {apierrors.NewConflict(deployments, "a", errors.New("changed")), "conflict", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := cause(tc.err); got != tc.cause {
				t.Errorf("cause of %v is %q, want %q", tc.err, got, tc.cause)
			}
			if got := Refused(tc.err); got != tc.refused {
				t.Errorf("%v is refused: %t, want %t", tc.err, got, tc.refused)
			}
		})
	}
}
