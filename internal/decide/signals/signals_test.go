package signals

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
)

const (
	up   = v1alpha1.SignalScaleUp
	down = v1alpha1.SignalScaleDown
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func TestParse(t *testing.T) {
	long := strings.Repeat("é", 256)
	for name, tc := range map[string]struct {
		data       string
		want       Message
		wantResult Result
		wantReason string
	}{
		"the word alone": {data: `{"signal":"ScaleUp"}`, want: Message{Signal: up}},
		"all fields":     {data: `{"signal":"ScaleDown","id":"a 1","time":"2026-03-14T12:00:00Z"}`, want: Message{Signal: down, ID: "a 1", Time: noon}},
		"a time in another zone, to the split second": {data: `{"signal":"ScaleUp","time":"2026-03-14T13:00:00.999+01:00"}`, want: Message{Signal: up, Time: noon}},
		"blanks around it":                            {data: "\n {\"signal\" :\t\"ScaleUp\"} \r\n", want: Message{Signal: up}},
		"unknown fields of any type":                  {data: `{"x":{"signal":[1]},"signal":"ScaleUp","y":null,"z":1e400}`, want: Message{Signal: up}},
		"null for what may be left out":               {data: `{"signal":"ScaleUp","id":null,"time":null}`, want: Message{Signal: up}},
		"an id of 256 characters":                     {data: `{"signal":"ScaleUp","id":"` + long + `"}`, want: Message{Signal: up, ID: long}},
		"a field that differs in case":                {data: `{"signal":"ScaleUp","Signal":"ScaleDown"}`, want: Message{Signal: up}},
		"nothing":                                     {data: ``, wantResult: Malformed, wantReason: "empty"},
		"blanks":                                      {data: " \n", wantResult: Malformed, wantReason: "empty"},
		"no JSON":                                     {data: `ScaleUp`, wantResult: Malformed, wantReason: "must be one JSON object"},
		"a bare string":                               {data: `"ScaleUp"`, wantResult: Malformed, wantReason: "no object"},
		"a list":                                      {data: `[{"signal":"ScaleUp"}]`, wantResult: Malformed, wantReason: "no object"},
		"null":                                        {data: `null`, wantResult: Malformed, wantReason: "no object"},
		"cut off":                                     {data: `{"signal":"ScaleUp"`, wantResult: Malformed},
		"cut off in a word":                           {data: `{"signal":"Scale`, wantResult: Malformed},
		"a second object":                             {data: `{"signal":"ScaleUp"}{"signal":"ScaleDown"}`, wantResult: Malformed, wantReason: "follows"},
		"garbage behind":                              {data: `{"signal":"ScaleUp"} x`, wantResult: Malformed, wantReason: "follows"},
		"a closing brace too many":                    {data: `{"signal":"ScaleUp"}}`, wantResult: Malformed, wantReason: "follows"},
		"a field twice":                               {data: `{"signal":"ScaleUp","signal":"ScaleDown"}`, wantResult: Malformed, wantReason: `"signal" comes twice`},
		"no word":                                     {data: `{"id":"1"}`, wantResult: Malformed, wantReason: "signal is missing"},
		"an empty word":                               {data: `{"signal":""}`, wantResult: Malformed, wantReason: "signal is missing"},
		"null for the word":                           {data: `{"signal":null}`, wantResult: Malformed, wantReason: "signal is missing"},
		"a number for the word":                       {data: `{"signal":1}`, wantResult: Malformed, wantReason: "signal must be a string"},
		"a number for the id":                         {data: `{"signal":"ScaleUp","id":7}`, wantResult: Malformed, wantReason: "id must be a string"},
		"a number for the time":                       {data: `{"signal":"ScaleUp","time":1773489600}`, wantResult: Malformed, wantReason: "time must be a string"},
		"an object for the id":                        {data: `{"signal":"ScaleUp","id":{}}`, wantResult: Malformed, wantReason: "id must be a string"},
		"a time without a zone":                       {data: `{"signal":"ScaleUp","time":"2026-03-14T12:00:00"}`, wantResult: Malformed, wantReason: "RFC 3339"},
		"an empty time":                               {data: `{"signal":"ScaleUp","time":""}`, wantResult: Malformed, wantReason: "RFC 3339"},
		"the time of an unset clock":                  {data: `{"signal":"ScaleUp","time":"0001-01-01T00:00:00Z"}`, wantResult: Malformed, wantReason: "1970"},
		"a time that is before the year 0 in UTC":     {data: `{"signal":"ScaleUp","time":"0000-01-01T00:00:00+23:59"}`, wantResult: Malformed, wantReason: "1970"},
		"an id of 257 characters":                     {data: `{"signal":"ScaleUp","id":"` + long + `x"}`, wantResult: Malformed, wantReason: "256"},
		"an id with a line end":                       {data: `{"signal":"ScaleUp","id":"a\nb"}`, wantResult: Malformed, wantReason: "control"},
		"another word":                                {data: `{"signal":"ScaleSideways"}`, wantResult: Unknown, wantReason: `"ScaleSideways"`},
		"a word in lower case":                        {data: `{"signal":"scaleup"}`, wantResult: Unknown},
		"a word with a blank":                         {data: `{"signal":"ScaleUp "}`, wantResult: Unknown},
		"not UTF-8":                                   {data: "{\"signal\":\"ScaleUp\",\"id\":\"\xff\"}", wantResult: Malformed, wantReason: "UTF-8"},
		"as long as may be":                           {data: `{"signal":"ScaleUp"}` + strings.Repeat(" ", MaxBytes-20), want: Message{Signal: up}},
		"too long":                                    {data: `{"signal":"ScaleUp"}` + strings.Repeat(" ", MaxBytes-19), wantResult: Oversized},
		"too deep":                                    {data: `{"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `,"signal":"ScaleUp"}`, wantResult: Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(tc.data))
			if tc.wantResult == "" {
				if err != nil || got != tc.want {
					t.Errorf("got %+v, error %v, want %+v", got, err, tc.want)
				}
				return
			}
			var refused *Error
			if !errors.As(err, &refused) || refused.Result != tc.wantResult || !strings.Contains(refused.Reason, tc.wantReason) {
				t.Fatalf("got %+v, error %+v, want %s with %q", got, err, tc.wantResult, tc.wantReason)
			}
			if len(refused.Reason) > 512 || strings.ContainsFunc(refused.Reason, func(r rune) bool { return r < ' ' }) {
				t.Errorf("the reason does not fit into a condition: %q", refused.Reason)
			}
		})
	}
}

func TestAccept(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(d)} }
	for name, tc := range map[string]struct {
		last *v1alpha1.Signal
		m    Message
		want Result
	}{
		"the first":                                {m: Message{Signal: up}, want: Accepted},
		"the first, with all it can have":          {m: Message{Signal: down, ID: "1", Time: noon}, want: Accepted},
		"the first, of long ago":                   {m: Message{Signal: up, Time: noon.AddDate(-10, 0, 0)}, want: Accepted},
		"another word":                             {last: &v1alpha1.Signal{Signal: up}, m: Message{Signal: down}, want: Accepted},
		"the same word without an id":              {last: &v1alpha1.Signal{Signal: up}, m: Message{Signal: up}, want: Repeated},
		"the same word without an id after one":    {last: &v1alpha1.Signal{Signal: up, ID: "1", Time: at(0)}, m: Message{Signal: up}, want: Repeated},
		"the same word and time without an id":     {last: &v1alpha1.Signal{Signal: up, Time: at(0)}, m: Message{Signal: up, Time: noon}, want: Repeated},
		"the same word without an id, later":       {last: &v1alpha1.Signal{Signal: up, Time: at(0)}, m: Message{Signal: up, Time: noon.Add(time.Second)}, want: Accepted},
		"the same word without an id, time is new": {last: &v1alpha1.Signal{Signal: up}, m: Message{Signal: up, Time: noon}, want: Accepted},
		"the same id":                              {last: &v1alpha1.Signal{Signal: up, ID: "1"}, m: Message{Signal: up, ID: "1"}, want: Repeated},
		"the same id with another word":            {last: &v1alpha1.Signal{Signal: up, ID: "1"}, m: Message{Signal: down, ID: "1"}, want: Repeated},
		"the same id of another time":              {last: &v1alpha1.Signal{Signal: up, ID: "1", Time: at(0)}, m: Message{Signal: up, ID: "1", Time: noon.Add(time.Minute)}, want: Repeated},
		"another id with the same word":            {last: &v1alpha1.Signal{Signal: up, ID: "1"}, m: Message{Signal: up, ID: "2"}, want: Accepted},
		"an id after none":                         {last: &v1alpha1.Signal{Signal: up}, m: Message{Signal: up, ID: "1"}, want: Accepted},
		"earlier":                                  {last: &v1alpha1.Signal{Signal: up, ID: "2", Time: at(0)}, m: Message{Signal: down, ID: "1", Time: noon.Add(-time.Second)}, want: Late},
		"at the same time":                         {last: &v1alpha1.Signal{Signal: up, ID: "1", Time: at(0)}, m: Message{Signal: down, ID: "2", Time: noon}, want: Accepted},
		"earlier by less than a second":            {last: &v1alpha1.Signal{Signal: up, ID: "1", Time: at(900 * time.Millisecond)}, m: Message{Signal: down, ID: "2", Time: noon.Add(100 * time.Millisecond)}, want: Accepted},
		"without a time after one with it":         {last: &v1alpha1.Signal{Signal: up, ID: "1", Time: at(0)}, m: Message{Signal: down, ID: "2"}, want: Accepted},
		"a little ahead":                           {m: Message{Signal: up, Time: noon.Add(5 * time.Minute)}, want: Accepted},
		"far ahead":                                {m: Message{Signal: up, Time: noon.Add(5*time.Minute + time.Second)}, want: Future},
		"no known word":                            {m: Message{Signal: "Scale"}, want: Unknown},
		"no word":                                  {m: Message{ID: "1"}, want: Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			got := Accept(tc.last, tc.m, noon)
			if got.Result != tc.want {
				t.Errorf("got %+v, want %s", got, tc.want)
			}
			if got.Reason == "" {
				t.Error("got no reason")
			}
		})
	}
}

// TestAcceptInAnyOrder gives each of a set of signals with times several times and in random order. Whatever the order, the
// signal that stands in the end is one of the latest, and its time never went back.
func TestAcceptInAnyOrder(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var sent []Message
		latest := noon
		for i := range 1 + r.IntN(6) {
			m := Message{Signal: []v1alpha1.SignalType{up, down}[r.IntN(2)], ID: fmt.Sprint(i), Time: noon.Add(time.Duration(r.IntN(4)) * time.Second)}
			if m.Time.After(latest) {
				latest = m.Time
			}
			for range 1 + r.IntN(3) {
				sent = append(sent, m)
			}
		}
		r.Shuffle(len(sent), func(i, j int) { sent[i], sent[j] = sent[j], sent[i] })
		var last *v1alpha1.Signal
		for _, m := range sent {
			if Accept(last, m, noon).Result != Accepted {
				continue
			}
			if last != nil && m.Time.Before(last.Time.Time) {
				t.Fatalf("seed %d: %+v was accepted after %+v", seed, m, last)
			}
			last = throughStatus(t, m.Record(noon))
		}
		if last == nil || !last.Time.Time.Equal(latest) {
			t.Fatalf("seed %d: of %+v %+v stands, want one of %s", seed, sent, last, latest)
		}
	}
}

// throughStatus is the signal as it comes back from the API server.
func throughStatus(tb testing.TB, s *v1alpha1.Signal) *v1alpha1.Signal {
	tb.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		tb.Fatalf("the status cannot hold %+v: %v", s, err)
	}
	back := &v1alpha1.Signal{}
	if err := json.Unmarshal(data, back); err != nil {
		tb.Fatalf("the status cannot be read: %s: %v", data, err)
	}
	return back
}

func TestResultsAreDistinctAndFitALabel(t *testing.T) {
	seen := map[Result]bool{}
	for _, r := range Results() {
		if seen[r] || r == "" || strings.ToLower(string(r)) != string(r) {
			t.Errorf("result %q comes twice, or is no lower-case word", r)
		}
		seen[r] = true
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"signal":"ScaleUp","id":"1","time":"2026-03-14T12:00:00Z"}`, `{"signal":"ScaleDown","x":[{}]}`, `{"signal":"up"}`,
		`{"signal":"ScaleUp","time":"9999-12-31T23:59:59-23:59"}`, `{"signal":"ScaleUp","id":"\u0000"}`, `{"signal":"ScaleUp"} `, "\xef\xbb\xbf{}", `{`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			var refused *Error
			if !errors.As(err, &refused) || !utf8.ValidString(refused.Reason) || len(refused.Reason) > 1024 {
				t.Fatalf("the error %q says not what became of it, or does not fit into a condition", err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatalf("%q was read as %+v and is no JSON", data, m)
		}
		if Accept(nil, m, noon).Result != Accepted && !m.Time.After(noon) {
			t.Fatalf("%+v is not accepted as the first", m)
		}
		// What is recorded comes back from the status as it was, so that the same message is a repetition.
		if m.Time.Year() > 9999 {
			return
		}
		if again := Accept(throughStatus(t, m.Record(noon)), m, noon).Result; again != Repeated {
			t.Fatalf("%+v is %s the second time", m, again)
		}
	})
}
