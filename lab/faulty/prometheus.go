package faulty

import (
	"encoding/json"
	"net/http"
	"time"
)

// Series is one series in the answer to a query.
type Series struct {
	// Labels of the series; nil means none.
	Labels map[string]string
	// Value is a number as Prometheus writes it, or "NaN", "+Inf" or "-Inf", or
	// what else a test wants to see refused.
	Value string
	// Age is how long ago the sample was taken.
	Age time.Duration
}

// Vector answers an instant query with series; without any the result is empty.
func Vector(series ...Series) http.Handler {
	return result("vector", func(now time.Time) any {
		elements := []map[string]any{}
		for _, one := range series {
			elements = append(elements, map[string]any{"metric": one.labels(), "value": sample(now.Add(-one.Age), one.Value)})
		}
		return elements
	})
}

// Matrix answers a query with series of one sample each, as a range selector
// does.
func Matrix(series ...Series) http.Handler {
	return result("matrix", func(now time.Time) any {
		elements := []map[string]any{}
		for _, one := range series {
			elements = append(elements, map[string]any{"metric": one.labels(), "values": []any{sample(now.Add(-one.Age), one.Value)}})
		}
		return elements
	})
}

// Scalar answers a query with a number without labels.
func Scalar(value string) http.Handler {
	return result("scalar", func(now time.Time) any { return sample(now, value) })
}

// String answers a query with a string.
func String(value string) http.Handler {
	return result("string", func(now time.Time) any { return sample(now, value) })
}

// QueryError answers a query as Prometheus does when it fails: with a status
// such as 422 and a type such as "execution".
func QueryError(status int, errorType, message string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		write(w, status, map[string]any{"status": "error", "errorType": errorType, "error": message})
	})
}

func (s Series) labels() map[string]string {
	if s.Labels == nil {
		return map[string]string{}
	}
	return s.Labels
}

// sample is a time in seconds and a value, as in Prometheus' answers.
func sample(at time.Time, value string) []any {
	return []any{float64(at.UnixMilli()) / 1000, value}
}

func result(kind string, of func(now time.Time) any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		data := map[string]any{"resultType": kind, "result": of(time.Now())}
		write(w, http.StatusOK, map[string]any{"status": "success", "data": data})
	})
}

func write(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document)
}
