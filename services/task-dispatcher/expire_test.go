package dispatcher

import (
	"sync/atomic"
	"testing"
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// What was done while the bus was away is reported when it is back, also when it was back
// before anybody looked whether it is there.
func TestADeadlineThatPassedWhileTheBusWasAwayWaitsForReports(t *testing.T) {
	w := newWorld(t)
	var skew atomic.Int64
	d, _ := w.start(Config{TaskDeadline: time.Hour, Now: func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }})
	s := serverID(1)
	w.enrol(s)
	w.want(s, "shipper", 1, w.image("shipper", "1.0.0"))
	task := w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_ASSIGNED)
	skew.Add(int64(maxGrace)) // the grace of the start is over
	time.Sleep(lookForDeadlines * 6 / 5)
	w.bus.Restart(t, func(string) { skew.Add(int64(2 * time.Hour)) })
	time.Sleep(lookForDeadlines * 3 / 2)
	w.report(s, task.Id, taskv1.State_STATE_SUCCEEDED, nil)
	w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
}
