package engine

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// asksAt lets the health check ask an address, at which the agent may serve.
func asksAt(address string) func(*imagev1.Manifest) {
	return func(m *imagev1.Manifest) {
		m.Run.Env["ADDRESS"] = address
		m.Run.Ready.Probe = &imagev1.Ready_Tcp{Tcp: address}
		m.Run.Ready.TimeoutMs = readyWithin
	}
}

func TestAnAnswerOfAnotherProcessDoesNotProveAnAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at, took := freeAddress(t), false
	r := b.run(func(c *Config) {
		c.FailPoint = func(p string) {
			if p != "new started" || took {
				return
			}
			took = true
			other, err := net.Listen("tcp", at)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = other.Close() })
		}
	})
	o := outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "plain", asksAt(at)))), taskv1.State_STATE_UNDONE)
	holder := fmt.Sprintf("%s is held by process %d (engine.test), not by cn-agent", at, os.Getpid())
	if o.GetCode() != code.NotReady || !strings.Contains(o.GetReason(), holder) {
		t.Errorf("%s: %s; want %s and %q", o.GetCode(), o.GetReason(), code.NotReady, holder)
	}
}

func TestAPortThatAnotherProcessHoldsIsRefusedBeforeTheOldVersionIsStopped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	at := freeAddress(t)
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "serve", asksAt(at)))), taskv1.State_STATE_SUCCEEDED)
	pid := r.good("cn-agent", "1.0.0").GetPid()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.1.0", "serve", asksAt(at)))), taskv1.State_STATE_SUCCEEDED)
	if now := r.good("cn-agent", "1.1.0").GetPid(); now == pid {
		t.Error("an upgrade at the same port left the old process")
	}
	pid = r.good("cn-agent", "1.1.0").GetPid()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	o := outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "serve", asksAt(other.Addr().String())))),
		taskv1.State_STATE_UNDONE)
	if o.GetCode() != code.SocketTaken || o.GetFailedStep() != taskv1.Step_STEP_CHECK {
		t.Errorf("%s at %s, want %s", o.GetCode(), o.GetFailedStep(), code.SocketTaken)
	}
	if now := r.good("cn-agent", "1.1.0").GetPid(); now != pid {
		t.Errorf("it was restarted: pid %d, was %d", now, pid)
	}
}

// An agent whose port something else takes keeps ending. It is started when the port is free, and good once it answers.
func TestAnAgentWhosePortBecomesFreeIsStartedAndGoodAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := freeAddress(t)
	r := b.run(func(c *Config) {
		p := testPolicy
		p.First = 50 * time.Millisecond
		c.CheckEvery, c.Supervisor = 200*time.Millisecond, testSupervisor(c.Root, p)
	})
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "serve", asksAt(at)))), taskv1.State_STATE_SUCCEEDED)
	var other net.Listener
	r.eventually("another program has the port", func() bool {
		for _, pid := range b.pids() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		var err error
		other, err = net.Listen("tcp", at)
		return err == nil
	})
	defer func() { _ = other.Close() }()
	holder := fmt.Sprintf("%s is held by process %d", at, os.Getpid())
	r.eventually("it keeps ending, and who holds the port is named", func() bool {
		f := r.the("cn-agent")
		return f.GetCode() == code.CrashLoop && strings.Contains(f.GetReason(), holder) && f.GetNextAt() != nil
	})
	_ = other.Close()
	r.eventually("it is good", func() bool { return r.the("cn-agent").GetHealth() == instancev1.Health_HEALTH_GOOD })
	if u := r.rooms.processes.Known("cn-agent", r.the("cn-agent").GetImage().GetId()); !u.Status().CrashLoop {
		t.Error("it is good because it ran for long, and not because it answers")
	}
}

func TestAProcessThatAnAgentLeftInAnotherSessionAnswersForIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	image := b.image("cn-agent", "1.0.0", "behind", asksAt(freeAddress(t)))
	outcome(t, r.do(b.want(image)), taskv1.State_STATE_SUCCEEDED)
	r.good("cn-agent", "1.0.0")
}
