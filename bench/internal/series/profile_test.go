package series

import "testing"

// One sample in every rate bytes: small objects are rarely seen and stand for
// many, large ones are always seen and stand for themselves.
func TestSampleScale(t *testing.T) {
	if got := sampleScale(1<<30, 512<<10); got != 1 {
		t.Errorf("a large object stands for %v, want 1", got)
	}
	if got := sampleScale(16, 512<<10); got < 32768 || got > 32769 {
		t.Errorf("an object of 16 bytes stands for %v, want 32,768.5", got)
	}
}
