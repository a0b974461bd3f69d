package engine

import (
	"testing"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func TestAChangeThatTheJournalLeavesOpenEndsTheEngineAndIsResumedByTheNext(t *testing.T) {
	b := newBench(t)
	first := b.run()
	outcome(t, first.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	torn := b.run(func(c *Config) {
		j := c.Journal
		c.FailPoint = func(p string) {
			if p == "linked" {
				_ = j.Close() // from here on nothing can be written
			}
		}
	})
	task := b.want(b.image("cn-agent", "2.0.0", "ready"))
	torn.offer()
	if err := torn.stopped(); err == nil {
		t.Error("the engine goes on beside a change that it left open")
	}
	next := b.run()
	outcome(t, next.wait(task), taskv1.State_STATE_SUCCEEDED)
	if now := next.good("cn-agent", "2.0.0").GetPid(); len(b.pids()) != 1 || b.pids()[0] != int(now) {
		t.Errorf("processes %v, want %d only", b.pids(), now)
	}
}
