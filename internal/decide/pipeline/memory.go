package pipeline

import "time"

// Memory is what decisions for one scaler remember from one to the next. It is not safe for concurrent use. It holds at most
// an hour, and is lost with the process.
type Memory struct {
}

// NewMemory returns the memory of a scaler that is seen for the first time, or again after a restart. The present count
// counts as the recommendation so far, so that a lower one must stand for a whole window.
func NewMemory(now time.Time, current int32) *Memory {
	_, _ = now, current
	return &Memory{}
}

// Recorded tells that the count of the target was changed: what rates count. It is called after a successful write.
func (m *Memory) Recorded(now time.Time, from, to int32) {
	_, _, _ = now, from, to
}
