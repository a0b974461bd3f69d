package forecast

import (
	"container/heap"
	"time"
)

// slots is when the changes end that were the last to begin, the first end first: at most as many as may be under way
// at once. It implements heap.Interface.
type slots []time.Time

func (s slots) Len() int           { return len(s) }
func (s slots) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s slots) Less(i, j int) bool { return s[i].Before(s[j]) }
func (s *slots) Push(x any)        { *s = append(*s, x.(time.Time)) }
func (s *slots) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// wait returns how long a change that is released now waits until it begins, and takes a slot of n for its time; with
// n 0 it does not wait.
func (s *slots) wait(n int, now time.Time, took time.Duration) (wait time.Duration) {
	if n == 0 {
		return 0
	}
	if len(*s) >= n {
		wait = max(0, heap.Pop(s).(time.Time).Sub(now))
	}
	heap.Push(s, now.Add(wait+took))
	return wait
}
