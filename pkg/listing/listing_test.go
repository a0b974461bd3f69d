package listing

import "testing"

func TestNumbersSortAsNumbers(t *testing.T) {
	if natural("9", "10") >= 0 || natural("b", "a") <= 0 {
		t.Error("9 is not before 10, or b is not behind a")
	}
}
