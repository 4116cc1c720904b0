package view

// Within is a live value cut down to the fields that are wanted, so that the two can be compared: what the server and others
// have added is left out. Lists of the same length are compared element by element.
func Within(live, wanted any) any {
	switch w := wanted.(type) {
	case map[string]any:
		l, isMap := live.(map[string]any)
		if !isMap {
			return live
		}
		out := map[string]any{}
		for key := range w {
			if value, there := l[key]; there {
				out[key] = Within(value, w[key])
			}
		}
		return out
	case []any:
		l, isList := live.([]any)
		if !isList || len(l) != len(w) {
			return live
		}
		out := make([]any, len(l))
		for i := range l {
			out[i] = Within(l[i], w[i])
		}
		return out
	}
	return live
}
