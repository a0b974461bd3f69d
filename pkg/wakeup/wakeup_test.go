package wakeup_test

import (
	"fmt"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/wakeup"
)

func Example() {
	work := wakeup.New()
	for range 3 {
		work.Wake()
	}
	<-work.C()
	select {
	case <-work.C():
		fmt.Println("woken again")
	default:
		fmt.Println("woken once")
	}
	// Output: woken once
}

func TestAWakeDuringTheWorkIsNotLost(t *testing.T) {
	work := wakeup.New()
	work.Wake()
	<-work.C()
	work.Wake()
	select {
	case <-work.C():
	default:
		t.Error("the second wake was lost")
	}
}
