package clone

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// wire tells every container of a pod template which group it is in, and rewrites the hosts given.
func wire(obj map[string]any, owner Owner, id int32, hosts []host, podSpec ...string) error {
	for _, list := range []string{"initContainers", "containers"} {
		path := append(slices.Clone(podSpec), list)
		containers, found, err := unstructured.NestedSlice(obj, path...)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		for _, c := range containers {
			if container, ok := c.(map[string]any); ok {
				rewriteContainer(container, hosts)
				addEnv(container, owner, id)
			}
		}
		if err := unstructured.SetNestedSlice(obj, containers, path...); err != nil {
			return err
		}
	}
	return nil
}

// addEnv puts the group's variables first, so that the container's own can refer to them. Variables of these names that
// the original has are replaced: they would name the original's group.
func addEnv(container map[string]any, owner Owner, id int32) {
	vars := []any{
		map[string]any{"name": "RSG_NAME", "value": owner.Name},
		map[string]any{"name": "RSG_GROUP_NAME", "value": owner.GroupName},
		map[string]any{"name": "RSG_GROUP_ID", "value": formatID(id)},
	}
	ours := func(e any) bool {
		entry, _ := e.(map[string]any)
		return slices.ContainsFunc(vars, func(v any) bool { return v.(map[string]any)["name"] == entry["name"] })
	}
	env, _ := container["env"].([]any)
	container["env"] = append(vars, slices.DeleteFunc(env, ours)...)
}

func rewriteContainer(container map[string]any, hosts []host) {
	if len(hosts) == 0 {
		return
	}
	for _, field := range []string{"command", "args"} {
		values, _ := container[field].([]any)
		for i, v := range values {
			if text, ok := v.(string); ok {
				values[i] = rewriteHosts(text, hosts)
			}
		}
	}
	env, _ := container["env"].([]any)
	for _, e := range env {
		if entry, ok := e.(map[string]any); ok {
			if text, ok := entry["value"].(string); ok {
				entry["value"] = rewriteHosts(text, hosts)
			}
		}
	}
}

// host is a Service whose name is replaced where it stands as a host.
type host struct {
	name, namespace       string
	newName, newNamespace string
}

// rewriteHosts replaces names of Services that stand as a host: followed by a port, by ".svc", or by "." and the
// Service's namespace, or after "://". A name that is only a word, such as in --role=decode, stays; so does one that is
// part of a longer host name, and one of another namespace.
func rewriteHosts(text string, hosts []host) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		replaced := false
		if i == 0 || !isHostByte(text[i-1]) {
			for _, h := range hosts {
				if width, replacement := h.match(text, i); width > 0 {
					out.WriteString(replacement)
					i += width
					replaced = true
					break
				}
			}
		}
		if !replaced {
			out.WriteByte(text[i])
			i++
		}
	}
	return out.String()
}

// match reports how many bytes at position i are the host, and what replaces them.
func (h host) match(text string, i int) (int, string) {
	if !strings.HasPrefix(text[i:], h.name) {
		return 0, ""
	}
	rest := text[i+len(h.name):]
	if qualified := "." + h.namespace; strings.HasPrefix(rest, qualified) && endsLabel(rest[len(qualified):]) {
		return len(h.name) + len(qualified), h.newName + "." + h.newNamespace
	}
	inURL := strings.HasSuffix(text[:i], "://") || strings.HasSuffix(userinfo(text[:i]), "://")
	switch {
	case strings.HasPrefix(rest, ".svc") && endsLabel(rest[len(".svc"):]):
	case len(rest) > 1 && rest[0] == ':' && rest[1] >= '0' && rest[1] <= '9':
	case inURL && (rest == "" || !isHostByte(rest[0])):
	default:
		return 0, ""
	}
	return len(h.name), h.newName
}

// userinfo cuts the "user:password@" of a URL off the end of the text, where it has one.
func userinfo(before string) string {
	if !strings.HasSuffix(before, "@") {
		return before
	}
	scheme := strings.LastIndex(before, "://")
	if scheme < 0 || strings.ContainsAny(before[scheme+3:len(before)-1], "/ ,") {
		return before
	}
	return before[:scheme+3]
}

// endsLabel reports whether a label of a host name ends where the rest begins.
func endsLabel(rest string) bool {
	return rest == "" || rest[0] == '.' || !isHostByte(rest[0])
}

func isHostByte(b byte) bool {
	return b == '-' || b == '.' || b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}
