package desired

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// GroupFailure says why an object of a group could not be made.
type GroupFailure struct {
	// ID of the group.
	ID int32
	// Object is the kind, namespace and name of what is missing.
	Object string
	// Err is the API server's answer, or says why there was none.
	Err error
}

// Error implements error.
func (f *GroupFailure) Error() string {
	return fmt.Sprintf("creating %s of group %d: %v", f.Object, f.ID, f.Err)
}

// Unwrap returns the API server's answer.
func (f *GroupFailure) Unwrap() error { return f.Err }

// Refused reports whether the API server refused a write for what it is or for who made it, so that it will go on doing
// so until somebody changes something. Everything else may be over in a moment.
func Refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsAlreadyExists(err) || apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// Limits of what a message names.
const (
	namedGroups  = 3
	namedObjects = 4
)

// DescribeFailures says of the first groups what is missing and why, and how many more there are.
func DescribeFailures(all []*GroupFailure) string {
	byID := map[int32][]*GroupFailure{}
	var ids []int32
	for _, f := range all {
		if byID[f.ID] == nil {
			ids = append(ids, f.ID)
		}
		byID[f.ID] = append(byID[f.ID], f)
	}
	slices.Sort(ids)
	var parts []string
	for _, id := range ids[:min(len(ids), namedGroups)] {
		var objects []string
		for _, f := range byID[id] {
			objects = append(objects, f.Object)
		}
		first := byID[id][0].Err
		parts = append(parts, fmt.Sprintf("group %d lacks %s: %s: %v", id, Some(objects, namedObjects), cause(first), first))
	}
	if more := len(ids) - namedGroups; more > 0 {
		parts = append(parts, fmt.Sprintf("and %s more", CountGroups(int32(more))))
	}
	return strings.Join(parts, "; ")
}

// Some joins the first names, and says how many more there are.
func Some(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// cause is one word for why a write failed. The answer itself says the rest.
func cause(err error) string {
	says := func(text string) bool { return strings.Contains(err.Error(), text) }
	switch {
	case says("exceeded quota"):
		return "quota"
	case says("admission webhook"), says("calling webhook"), says("ValidatingAdmissionPolicy"), says("MutatingAdmissionPolicy"):
		return "admission"
	case apierrors.IsForbidden(err) && says("cannot"):
		return "forbidden"
	case apierrors.IsForbidden(err):
		return "admission" // Built-in plug-ins answer with this reason too.
	case apierrors.IsAlreadyExists(err):
		return "conflict"
	}
	return cmp.Or(strings.ToLower(string(apierrors.ReasonForError(err))), "no answer")
}
