package sysinfo

import (
	"context"
	"sync/atomic"
	"testing"
)

func TestAFileSystemThatHangsIsLeftOutAndAskedOnce(t *testing.T) {
	var asked atomic.Int64
	answer, answered := make(chan struct{}), make(chan struct{})
	hangs := func(string) uint64 {
		asked.Add(1)
		<-answer
		defer close(answered)
		return 7
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 5 {
		if size := sizeOf(ended, "/hangs", hangs); size != 0 {
			t.Errorf("its size is %d", size)
		}
	}
	if size := sizeOf(t.Context(), "/well", func(string) uint64 { return 3 }); size != 3 {
		t.Errorf("another one's size is %d", size)
	}
	close(answer)
	<-answered
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	if size := sizeOf(t.Context(), "/hangs", func(string) uint64 { return 7 }); size != 7 {
		t.Errorf("its size is %d when it answers again", size)
	}
}
