package kube

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestNamespaceTerminating(t *testing.T) {
	// As the API server's admission plug-in NamespaceLifecycle answers.
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "llm", errors.New("unable to create new content"))
	terminating.ErrStatus.Details.Causes = append(terminating.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "llm", errors.New("no such right"))
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                       {nil, false},
		"another reason":                 {forbidden, false},
		"not of the API server":          {errors.New("broken"), false},
		"it":                             {terminating, true},
		"wrapped":                        {fmt.Errorf("creating: %w", terminating), true},
		"twice":                          {errors.Join(fmt.Errorf("a: %w", terminating), nil, errors.Join(terminating)), true},
		"beside something else":          {errors.Join(terminating, forbidden), false},
		"behind something else":          {fmt.Errorf("b: %w", errors.Join(errors.New("broken"), terminating)), false},
		"several in one text, all of it": {fmt.Errorf("%w and %w", terminating, terminating), true},
	} {
		if got := NamespaceTerminating(tc.err); got != tc.want {
			t.Errorf("%s: %t, want %t: %v", name, got, tc.want, tc.err)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no error":          {nil, false},
		"out of order":      {apierrors.NewServiceUnavailable("later"), false},
		"a missing right":   {fmt.Errorf("applying: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "llm", errors.New("no such right"))), true},
		"a request":         {apierrors.NewBadRequest("no"), true},
		"a field too new":   {apierrors.NewInternalError(errors.New("failed to create typed patch object: .spec.behavior.scaleUp.tolerance: field not declared in schema")), true},
		"a namespace's end": {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}}}}, false},
	} {
		if got := Refused(tc.err); got != tc.want {
			t.Errorf("%s: %t, want %t: %v", name, got, tc.want, tc.err)
		}
	}
}
