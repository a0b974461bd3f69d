package rollouts

import (
	"testing"
	"time"
)

func TestTheShareOfTasksThatFailIsOverOneTime(t *testing.T) {
	begin := time.Unix(0, 0)
	var ends []end
	for n := range mostLearnt { // one a second succeeds; the next ones are not read
		ends = append(ends, end{at: begin.Add(time.Duration(n) * time.Second), took: time.Second, succeeded: true})
	}
	for n := range mostLearnt { // one of a hundred seconds fails
		ends = append(ends, end{at: begin.Add(time.Duration(n) * 100 * time.Second)})
	}
	l := lessonsOf(ends, begin.Add(mostLearnt*time.Second))
	if l.tasks != mostLearnt+20 || l.fails < 0.009 || l.fails > 0.011 {
		t.Errorf("%d tasks, %.4f of them failed; want %d and one of a hundred", l.tasks, l.fails, mostLearnt+20)
	}
	if l := lessonsOf(nil, time.Time{}); l.median() != assumed || l.tasks != 0 || l.fails != 0 {
		t.Errorf("without tasks: %v", l)
	}
}
