package engine

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// write keeps the document in a file, for an executor in another process.
func (b *workbench) write() string {
	b.t.Helper()
	data, err := proto.Marshal(b.doc)
	if err != nil {
		b.t.Fatal(err)
	}
	path := filepath.Join(b.t.TempDir(), "document")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

func TestAgentsSurviveAKilledExecutorAndAreTakenOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	pid := r.good("cn-agent", "1.0.0").GetPid()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	cmd := child{Root: b.root, Shelf: b.shelf}.start(t)
	b.eventually("the executor runs", func() bool {
		_, err := os.Stat(b.root.Journal())
		return err == nil
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	r = b.run()
	r.eventually("it is taken over", func() bool { return r.the("cn-agent").GetPid() == pid })
}

func TestAgentsThatDiedWithTheMachineAreStartedWithTheBusAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready", func(m *imagev1.Manifest) { m.Run.Ready.Probe = nil })))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	b.killAgents()
	b.eventually("nothing runs", func() bool { return len(b.pids()) == 0 })
	r = b.run()
	r.eventually("it runs", func() bool { return r.the("cn-agent").GetPid() != 0 })
}

func TestStopAgentsEndsThemWithTheExecutor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(func(c *Config) { c.StopAgents = true })
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if pids := b.pids(); len(pids) != 0 {
		t.Errorf("still running: %v", pids)
	}
}
