package signal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/signals"
)

const (
	asEvents = "events"
	asLines  = "lines"
	asValues = "values"
)

// framesOf takes an answer apart, into "id=... data" for each frame and the error that it ends with.
func framesOf(tb testing.TB, as string, r io.Reader) (found []string, retry time.Duration, end error) {
	tb.Helper()
	in := lines{r: bufio.NewReader(r)}
	var f frames
	switch as {
	case asEvents:
		f = &eventFrames{lines: in, retry: func(d time.Duration) { retry = d }}
	case asLines:
		f = &lineFrames{lines: in}
	default:
		f = &valueFrames{lines: in}
	}
	for {
		next, err := f.next()
		if err != nil {
			return found, retry, err
		}
		text := string(next.data)
		if next.oversized {
			text = "(oversized)"
		}
		if len(text) > signals.MaxBytes+64 {
			tb.Fatalf("a frame has %d bytes", len(text))
		}
		if next.id != nil {
			text = "id=" + *next.id + " " + text
		}
		found = append(found, text)
	}
}

func TestFrames(t *testing.T) {
	long := strings.Repeat("x", signals.MaxBytes)
	endless := strings.Repeat("x", maxLine+maxSkipped+1)
	for name, tc := range map[string]struct {
		as        string
		answer    string
		want      []string
		wantRetry time.Duration
		wantErr   error
	}{
		"an event":                              {as: asEvents, answer: "data: a\n\n", want: []string{"a"}},
		"an event with an id":                   {as: asEvents, answer: "id: 7\ndata: a\n\n", want: []string{"id=7 a"}},
		"only one blank goes":                   {as: asEvents, answer: "data:a\ndata:  b\n\n", want: []string{"a\n b"}},
		"lines end with CR LF":                  {as: asEvents, answer: "id: 1\r\ndata: a\r\n\r\ndata: b\r\n\r\n", want: []string{"id=1 a", "b"}},
		"lines end with CR":                     {as: asEvents, answer: "data: a\r\rdata: b\r\r", want: []string{"a", "b"}},
		"lines end in all ways":                 {as: asEvents, answer: "data: a\r\ndata: b\rdata: c\n\r\n", want: []string{"a\nb\nc"}},
		"a mark of the byte order":              {as: asEvents, answer: "\xef\xbb\xbfdata: a\n\n", want: []string{"a"}},
		"comments and other fields":             {as: asEvents, answer: ": hi\n:\nevent: x\nfoo: y\nbar\ndata: a\n\n: bye\n\n", want: []string{"a"}},
		"an event without data":                 {as: asEvents, answer: "event: ping\n\ndata\n\n", want: []string{""}},
		"an id alone":                           {as: asEvents, answer: "id: 3\n\n", want: []string{"id=3 "}},
		"an id that is taken back":              {as: asEvents, answer: "id\ndata: a\n\n", want: []string{"id= a"}},
		"an id with a zero byte":                {as: asEvents, answer: "id: a\x00b\ndata: a\n\n", want: []string{"a"}},
		"an event that is not complete":         {as: asEvents, answer: "data: a\n\nid: 2\ndata: b\n", want: []string{"a"}},
		"retry":                                 {as: asEvents, answer: "retry: 2500\n\n", wantRetry: 2500 * time.Millisecond},
		"retry that is no number":               {as: asEvents, answer: "retry: 5s\nretry: -1\nretry: 99999999999\n\n"},
		"an event as long as may be":            {as: asEvents, answer: "data: " + long + "\n\n", want: []string{long}},
		"an event that is too long":             {as: asEvents, answer: "id: 1\ndata: " + long + "x\n\ndata: b\n\n", want: []string{"id=1 (oversized)", "b"}},
		"an event that is too long in lines":    {as: asEvents, answer: strings.Repeat("data: xxxx\n", signals.MaxBytes/4) + "id: 2\n\ndata: b\n\n", want: []string{"id=2 (oversized)", "b"}},
		"a line of an event that does not end":  {as: asEvents, answer: "data: " + endless, wantErr: errEndless},
		"a comment that does not end":           {as: asEvents, answer: ":" + endless, wantErr: errEndless},
		"lines of an event that do not end":     {as: asEvents, answer: strings.Repeat("data: xxxx\n", maxSkipped/4), wantErr: errEndless},
		"lines":                                 {as: asLines, answer: "a\nb\n", want: []string{"a", "b"}},
		"lines, the last without its end":       {as: asLines, answer: "a\r\nb", want: []string{"a", "b"}},
		"lines with empty ones between":         {as: asLines, answer: "\n\na\n \n\r\nb\n\n", want: []string{"a", "b"}},
		"a broken line":                         {as: asLines, answer: "{\"a\":\n{}\n", want: []string{"{\"a\":", "{}"}},
		"a line that is too long":               {as: asLines, answer: long + strings.Repeat("y", 100) + "\nb\n", want: []string{"(oversized)", "b"}},
		"a line that does not end":              {as: asLines, answer: endless, wantErr: errEndless},
		"a value":                               {as: asValues, answer: `{"a":1}`, want: []string{`{"a":1}`}},
		"a value over several lines":            {as: asValues, answer: "{\n \"a\": [\n 1]\n}\n", want: []string{"{\n \"a\": [\n 1]\n}"}},
		"values":                                {as: asValues, answer: "{\"a\":1}\n\n{\n}\n{}", want: []string{`{"a":1}`, "{\n}", "{}"}},
		"braces and quotes in strings":          {as: asValues, answer: "{\"a\":\"}\\\"}\"}\n{}\n", want: []string{`{"a":"}\"}"}`, "{}"}},
		"something behind a value":              {as: asValues, answer: "{} x\n{}\n", want: []string{"{} x", "{}"}},
		"a value that is cut off":               {as: asValues, answer: "{\"a\":\n1", want: []string{"{\"a\":\n1"}},
		"a string that is cut off":              {as: asValues, answer: "{\"a\n{}\n", want: []string{`{"a`, "{}"}},
		"closing braces too many":               {as: asValues, answer: "}}\n{}\n", want: []string{"}}", "{}"}},
		"no answer":                             {as: asValues},
		"nothing but blanks":                    {as: asValues, answer: strings.Repeat(" \n", signals.MaxBytes)},
		"a value that is too long":              {as: asValues, answer: "{\"a\":\"" + long + "\"}\n{}\n", want: []string{"(oversized)", "{}"}},
		"a value that is too long in lines":     {as: asValues, answer: "[" + strings.Repeat("1,\n", signals.MaxBytes/2) + "1]\n{}\n", want: []string{"(oversized)", "{}"}},
		"a value in lines that does not end":    {as: asValues, answer: "[" + strings.Repeat("1,\n", maxSkipped), wantErr: errEndless},
		"a value in one line that does not end": {as: asValues, answer: endless, wantErr: errEndless},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.wantErr == nil {
				tc.wantErr = io.EOF
			}
			got, retry, err := framesOf(t, tc.as, strings.NewReader(tc.answer))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("frames (-want +got):\n%.2000s", diff)
			}
			if retry != tc.wantRetry || !errors.Is(err, tc.wantErr) {
				t.Errorf("got retry %s and error %v, want %s and %v", retry, err, tc.wantRetry, tc.wantErr)
			}
			bytewise, _, _ := framesOf(t, tc.as, iotest.OneByteReader(strings.NewReader(tc.answer)))
			if diff := cmp.Diff(got, bytewise); diff != "" {
				t.Errorf("frames differ when the answer comes byte by byte:\n%.2000s", diff)
			}
		})
	}
}

// TestFramesBreakOff makes sure that what was not sent to its end is not taken for a message.
func TestFramesBreakOff(t *testing.T) {
	broken := errors.New("broken off")
	for as, answer := range map[string]string{
		asEvents: "data: a\n\ndata: b\n", asLines: "a\nb", asValues: "{}\n{",
	} {
		got, _, err := framesOf(t, as, io.MultiReader(strings.NewReader(answer), iotest.ErrReader(broken)))
		if len(got) != 1 || !errors.Is(err, broken) {
			t.Errorf("%s: got %q and error %v, want the first message alone", as, got, err)
		}
	}
}

func FuzzFrames(f *testing.F) {
	for _, seed := range []string{"id: 1\ndata: {}\n\n", "data:a\r\rretry:1\n\n", "{\"a\":\"\\\"}\n{}", "[\n]\n\n{}", "\xef\xbb\xbfdata\n\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		for _, as := range []string{asEvents, asLines, asValues} {
			whole, _, _ := framesOf(t, as, strings.NewReader(answer))
			halves, _, _ := framesOf(t, as, iotest.HalfReader(strings.NewReader(answer)))
			if diff := cmp.Diff(whole, halves); diff != "" {
				t.Fatalf("%s of %q differ with how they arrive:\n%s", as, answer, diff)
			}
			for _, text := range whole {
				if _, err := signals.Parse([]byte(text)); err != nil {
					var refused *signals.Error
					if !errors.As(err, &refused) {
						t.Fatalf("%q gives %v", text, err)
					}
				}
			}
		}
	})
}

// BenchmarkFrames shows that a value costs what it is long, however many lines it is on.
func BenchmarkFrames(b *testing.B) {
	for _, as := range []string{asEvents, asLines, asValues} {
		answer := "[" + strings.Repeat("1,\n", 20000) + "1]\n"
		if as == asEvents {
			answer = strings.Repeat("data: x\n", 20000) + "\n"
		}
		b.Run(fmt.Sprintf("%s of %d bytes", as, len(answer)), func(b *testing.B) {
			b.SetBytes(int64(len(answer)))
			for b.Loop() {
				_, _, _ = framesOf(b, as, strings.NewReader(answer))
			}
		})
	}
}
