package engine

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/freeport"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// Agents with sockets are started through this program.
func init() { supervise.Shim(os.Args) }

// listens makes an image listen at an address, with a socket that is handed to it.
func listens(at string) func(*imagev1.Manifest) {
	return func(m *imagev1.Manifest) { m.Run.Sockets = []*imagev1.Socket{{Name: "main", Listen: at}} }
}

// listensItself makes an image open its socket by itself.
func listensItself(at string) func(*imagev1.Manifest) {
	return func(m *imagev1.Manifest) { m.Run.Env["ADDRESS"] = at }
}

// freeAddress returns an address at which nothing listens at the moment.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	return freeport.Address(port)
}

// ask connects to an agent and returns the version that answers.
func ask(at string) (string, error) {
	conn, err := net.DialTimeout("tcp", at, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	said, err := io.ReadAll(conn)
	if err == nil && len(said) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return strings.TrimSpace(string(said)), err
}

// answers asserts which version listens at an address; none at all when it is empty.
func answers(t *testing.T, at, want string) {
	t.Helper()
	if got, err := ask(at); got != want || want == "" && !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%s answers %q (%v), want %q", at, got, err, want)
	}
}

// asking asks again and again until the test ends it, and counts what went wrong.
func asking(at string, every time.Duration) (stop func() (asked int64, wrong []error)) {
	var asked atomic.Int64
	var wrong []error
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(every):
			}
			asked.Add(1)
			if _, err := ask(at); err != nil {
				wrong = append(wrong, err)
			}
		}
	}()
	return func() (int64, []error) {
		close(end)
		<-ended
		return asked.Load(), wrong
	}
}

func TestNoConnectionIsLostWhileVersionsReplaceEachOther(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(*imagev1.Manifest){
		"overlap": overlap, "restart": func(*imagev1.Manifest) {},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := b.run()
			at := freeAddress(t)
			image := func(version, what string) *imagev1.Manifest {
				return b.image("cn-agent", version, what, listens(at), how)
			}
			outcome(t, r.do(b.want(image("1.0.0", "serve"))), taskv1.State_STATE_SUCCEEDED)
			stop := asking(at, time.Millisecond)
			outcome(t, r.do(b.want(image("2.0.0", "serve"))), taskv1.State_STATE_SUCCEEDED)
			answers(t, at, "2.0.0")
			outcome(t, r.do(b.want(image("3.0.0", "crash"))), taskv1.State_STATE_UNDONE)
			answers(t, at, "2.0.0")
			outcome(t, r.do(b.want(image("1.0.0", "serve"))), taskv1.State_STATE_SUCCEEDED)
			answers(t, at, "1.0.0")
			if asked, wrong := stop(); len(wrong) > 0 || asked < 10 {
				t.Errorf("%d of %d went wrong, first %v", len(wrong), asked, wrong[:min(1, len(wrong))])
			}
			r.good("cn-agent", "1.0.0")
		})
	}
}

func TestARestartedExecutorTakesTheVerySameSocketBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	at := freeAddress(t)
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "serve", listens(at)))), taskv1.State_STATE_SUCCEEDED)
	before, err := r.rooms.sockets.Inode("cn-agent", at)
	if err != nil {
		t.Fatal(err)
	}
	stop := asking(at, time.Millisecond)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "serve", listens(at)))), taskv1.State_STATE_SUCCEEDED)
	answers(t, at, "2.0.0")
	if asked, wrong := stop(); len(wrong) > 0 {
		t.Errorf("%d of %d went wrong, first %v", len(wrong), asked, wrong[0])
	}
	if after, err := r.rooms.sockets.Inode("cn-agent", at); err != nil || after != before {
		t.Errorf("the socket is %d after the restart (%v), want %d", after, err, before)
	}
}

func TestAnAddressThatIsTakenIsRefusedBeforeAnythingIsTouched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	at := freeAddress(t)
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "serve", listens(at)))), taskv1.State_STATE_SUCCEEDED)
	pid := r.good("cn-agent", "1.0.0").GetPid()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	for where, code := range map[string]string{
		other.Addr().String(): code.SocketTaken, "192.0.2.1:80": code.BadSocket, "here": code.BadManifest,
	} {
		o := outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "serve", listens(where)))), taskv1.State_STATE_UNDONE)
		if o.GetCode() != code || o.GetFailedStep() != taskv1.Step_STEP_CHECK {
			t.Errorf("%s: %s at %s, want %s", where, o.GetCode(), o.GetFailedStep(), code)
		}
	}
	answers(t, at, "1.0.0")
	if now := r.good("cn-agent", "1.0.0").GetPid(); now != pid {
		t.Errorf("it was restarted: pid %d, was %d", now, pid)
	}
}

func TestASocketLivesAsLongAsAVersionNamesItsAddress(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	one, two := freeAddress(t), freeAddress(t)
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "serve", listens(one)))), taskv1.State_STATE_SUCCEEDED)
	outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "crash", listens(two)))), taskv1.State_STATE_UNDONE)
	answers(t, one, "1.0.0")
	answers(t, two, "")
	outcome(t, r.do(b.want(b.image("cn-agent", "3.0.0", "serve", listens(two)))), taskv1.State_STATE_SUCCEEDED)
	answers(t, one, "")
	answers(t, two, "3.0.0")
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
	answers(t, two, "")
}

func TestAnAgentThatListenedByItselfHandsItsSocketOverAndGetsItsAddressBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	at := freeAddress(t)
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "serve", listensItself(at)))), taskv1.State_STATE_SUCCEEDED)
	stop := asking(at, time.Millisecond)
	outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "serve", listens(at)))), taskv1.State_STATE_SUCCEEDED)
	if asked, wrong := stop(); len(wrong) > 0 {
		t.Errorf("%d of %d went wrong, first %v", len(wrong), asked, wrong[0])
	}
	answers(t, at, "2.0.0")
	outcome(t, r.do(b.want(b.image("cn-agent", "3.0.0", "crash", listensItself(at)))), taskv1.State_STATE_UNDONE)
	answers(t, at, "2.0.0")
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "serve", listensItself(at)))), taskv1.State_STATE_SUCCEEDED)
	answers(t, at, "1.0.0")
}

func TestConnectionsWaitWhileACrashedAgentIsRestarted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(func(c *Config) {
		p := testPolicy
		p.First = 300 * time.Millisecond
		c.Supervisor = testSupervisor(c.Root, p)
	})
	at := freeAddress(t)
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "serve", listens(at)))), taskv1.State_STATE_SUCCEEDED)
	if err := syscall.Kill(int(r.good("cn-agent", "1.0.0").GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.eventually("it ended", func() bool { return len(b.pids()) == 0 })
	answers(t, at, "1.0.0")
}

// In an overlap there is an agent with the socket at every instant, so that also a kill
// of the executor loses no connection.
func TestAnExecutorKilledInAnOverlapLosesNoConnection(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]operation{
		"upgrade": {version: "2.0.0", what: "serve", ends: taskv1.State_STATE_SUCCEEDED},
		"undo":    {version: "2.0.0", what: "crash", ends: taskv1.State_STATE_UNDONE},
	} {
		t.Run(name, func(t *testing.T) {
			for _, point := range o.socketPoints(t) {
				t.Run(strings.ReplaceAll(point, " ", "-"), func(t *testing.T) {
					t.Parallel()
					o.killWithSocket(t, point)
				})
			}
		})
	}
}

// withSocket installs a first version that listens at an address, and returns the task of the operation.
func (o operation) withSocket(b *workbench, at string, change ...func(*Config)) (r *running, task string) {
	r = b.run(change...)
	outcome(b.t, r.do(b.want(b.image("cn-agent", "1.0.0", "serve", listens(at), overlap))),
		taskv1.State_STATE_SUCCEEDED)
	return r, b.want(b.image("cn-agent", o.version, o.what, listens(at), overlap))
}

// socketPoints lists the points that the operation passes.
func (o operation) socketPoints(t *testing.T) []string {
	var mu sync.Mutex
	var points []string
	r, task := o.withSocket(newBench(t), freeAddress(t), func(c *Config) {
		c.FailPoint = func(p string) {
			mu.Lock()
			defer mu.Unlock()
			points = append(points, p)
		}
	})
	mu.Lock()
	points = nil // those of the install
	mu.Unlock()
	outcome(t, r.do(task), o.ends)
	mu.Lock()
	passed := slices.Clone(points) // one is still passed after the report
	mu.Unlock()
	// the next begin is the same
	passed = slices.DeleteFunc(passed, func(p string) bool { return strings.HasPrefix(p, "end ") })
	slices.Sort(passed)
	return slices.Compact(passed)
}

func (o operation) killWithSocket(t *testing.T, point string) {
	b, at := newBench(t), freeAddress(t)
	r, task := o.withSocket(b, at)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	stop := asking(at, time.Millisecond)
	c := child{Root: b.root, Shelf: b.shelf, Document: b.write(), KillAt: point}
	killed := c.start(t)
	if err := killed.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("it was not killed at %q: %v", point, err)
	}
	r = b.run()
	outcome(t, r.do(task), o.ends)
	r.eventually("it is watched again", func() bool { return r.the("cn-agent").GetPid() != 0 })
	if asked, wrong := stop(); len(wrong) > 0 || asked == 0 {
		t.Errorf("%d of %d went wrong, first %v", len(wrong), asked, wrong[:min(1, len(wrong))])
	}
	want := o.after("1.0.0")
	answers(t, at, want)
	if pid := r.good("cn-agent", want).GetPid(); !slices.Equal(b.pids(), []int{int(pid)}) {
		t.Errorf("processes %v, want %d only", b.pids(), pid)
	}
}
