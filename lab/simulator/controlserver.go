package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/trace"
)

// ControlHandler serves the control API. Requests that a browser sends on behalf of another site are refused.
func (s *Simulator) ControlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /pin", s.getPins)
	mux.HandleFunc("POST /pin", s.postPin)
	mux.HandleFunc("DELETE /pin", s.deletePin)
	mux.HandleFunc("GET /load", s.getLoads)
	mux.HandleFunc("POST /load", s.postLoad)
	mux.HandleFunc("DELETE /load", s.deleteLoad)
	mux.HandleFunc("GET /state", s.getState)
	mux.Handle("GET /metrics", s.serviceMetrics())
	return http.NewCrossOriginProtection().Handler(mux)
}

func (s *Simulator) getPins(w http.ResponseWriter, r *http.Request) {
	if refuse(w, onlyParameters(r)) {
		return
	}
	answer(w, api.PinList{Pins: append([]api.Pin{}, s.Pins()...)})
}

func (s *Simulator) postPin(w http.ResponseWriter, r *http.Request) {
	var pin api.Pin
	if errs := append(onlyParameters(r), api.Decode(r.Body, &pin)...); refuse(w, errs) {
		return
	}
	if refuse(w, pin.Validate(pinFix)) {
		return
	}
	s.Pin(pin)
	answer(w, pin)
}

// deletePin takes the selector from the body or from the query (namespace=a&labels=k=v,k2=v2); without either it means all pins.
func (s *Simulator) deletePin(w http.ResponseWriter, r *http.Request) {
	if refuse(w, onlyParameters(r, "namespace", "labels")) {
		return
	}
	selector, errs := selectorOf(r)
	if refuse(w, errs) {
		return
	}
	answer(w, api.Removed{Removed: s.Unpin(selector)})
}

func (s *Simulator) getLoads(w http.ResponseWriter, r *http.Request) {
	if refuse(w, onlyParameters(r)) {
		return
	}
	answer(w, api.LoadList{Loads: append([]api.Load{}, s.Loads()...)})
}

func (s *Simulator) postLoad(w http.ResponseWriter, r *http.Request) {
	var load api.Load
	if errs := append(onlyParameters(r), api.Decode(r.Body, &load)...); refuse(w, errs) {
		return
	}
	if refuse(w, load.Validate(trace.Names())) {
		return
	}
	load, err := s.SetLoad(load)
	if err != nil {
		writeJSON(w, http.StatusInternalServerError, api.ErrorBody{Errors: api.Errors{{Fix: err.Error()}}})
		return
	}
	answer(w, load)
}

// deleteLoad stops the load that the parameter name names, or all; with discard=true it also drops their requests.
func (s *Simulator) deleteLoad(w http.ResponseWriter, r *http.Request) {
	if refuse(w, onlyParameters(r, "name", "discard")) {
		return
	}
	query := r.URL.Query()
	var discard bool
	switch value := query.Get("discard"); value {
	case "", "false":
	case "true":
		discard = true
	default:
		refuse(w, api.Errors{{Field: "discard", Value: value, Fix: "must be true or false"}})
		return
	}
	name := query.Get("name")
	if query.Has("name") && name == "" {
		refuse(w, api.Errors{{Field: "name", Fix: "must name a load; leave the parameter out to stop all loads"}})
		return
	}
	answer(w, api.Removed{Removed: s.StopLoad(name, discard)})
}

func (s *Simulator) getState(w http.ResponseWriter, r *http.Request) {
	if refuse(w, onlyParameters(r)) {
		return
	}
	answer(w, s.State())
}

func selectorOf(r *http.Request) (*api.Selector, api.Errors) {
	query := r.URL.Query()
	var selector api.Selector
	switch {
	case len(query) > 0:
		selector.Namespace = query.Get("namespace")
		for term := range strings.SplitSeq(query.Get("labels"), ",") {
			if term == "" {
				continue
			}
			key, value, ok := strings.Cut(term, "=")
			if !ok {
				return nil, api.Errors{{Field: "labels", Value: term, Fix: "must be key=value pairs separated by commas"}}
			}
			if selector.Labels == nil {
				selector.Labels = map[string]string{}
			}
			selector.Labels[key] = value
		}
	case r.ContentLength == 0:
		return nil, nil
	default:
		if errs := api.Decode(r.Body, &selector); len(errs) > 0 {
			return nil, errs
		}
	}
	return &selector, selector.Validate()
}

// onlyParameters refuses query parameters that the request does not know, since a misspelt one would otherwise mean "all".
func onlyParameters(r *http.Request, known ...string) api.Errors {
	var errs api.Errors
	for name := range r.URL.Query() {
		if !slices.Contains(known, name) {
			fix := "must not be set: this request takes no query parameters"
			if len(known) > 0 {
				fix = fmt.Sprintf("must not be set: the query parameters are %s", strings.Join(known, ", "))
			}
			errs = append(errs, api.Error{Field: name, Value: r.URL.Query().Get(name), Fix: fix})
		}
	}
	slices.SortFunc(errs, func(a, b api.Error) int { return strings.Compare(a.Field, b.Field) })
	return errs
}

func answer(w http.ResponseWriter, document any) {
	writeJSON(w, http.StatusOK, document)
}

// refuse answers 400 with the findings, if there are any, and reports whether it did.
func refuse(w http.ResponseWriter, errs api.Errors) bool {
	if len(errs) == 0 {
		return false
	}
	writeJSON(w, http.StatusBadRequest, api.ErrorBody{Errors: errs})
	return true
}

func writeJSON(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	// A client that has gone away is the only way for this to fail.
	_ = encoder.Encode(document)
}
