package trace

import (
	"slices"
	"testing"
)

func TestTracesAreTheRecordedHours(t *testing.T) {
	for name, want := range map[string]struct{ requests, meanPrompt, meanOutput int }{
		Conversation: {requests: 19366, meanPrompt: 1154, meanOutput: 211},
		Code:         {requests: 8819, meanPrompt: 2047, meanOutput: 27},
	} {
		got, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		var sum Bin
		for _, bin := range got.Bins {
			if bin.Requests < 0 || bin.PromptTokens < bin.Requests || bin.OutputTokens < bin.Requests {
				t.Errorf("%s: bin %+v has fewer tokens than requests", name, bin)
			}
			sum.Requests += bin.Requests
			sum.PromptTokens += bin.PromptTokens
			sum.OutputTokens += bin.OutputTokens
		}
		if sum.Requests != want.requests || sum.PromptTokens/sum.Requests != want.meanPrompt || sum.OutputTokens/sum.Requests != want.meanOutput {
			t.Errorf("%s sums up to %+v, want %+v", name, sum, want)
		}
		if seconds := got.BinSeconds * float64(len(got.Bins)); got.BinSeconds != 10 || seconds < 3400 || seconds > 3600 {
			t.Errorf("%s lasts %g s in bins of %g s, want about an hour in bins of 10 s", name, seconds, got.BinSeconds)
		}
		for _, quantiles := range [][]float64{got.PromptQuantiles, got.OutputQuantiles} {
			if len(quantiles) != 101 || !slices.IsSorted(quantiles) || quantiles[0] < 1 {
				t.Errorf("%s: percentiles %v", name, quantiles)
			}
		}
	}
}

func TestUnknownTrace(t *testing.T) {
	if _, err := Load("chat"); err == nil || err.Error() != `trace "chat": must be one of ["conversation" "code"]` {
		t.Errorf("got error %v", err)
	}
}
