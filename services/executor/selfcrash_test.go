package executor_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/polltest"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/powercut"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/tally"
)

// killsVariable says how often each operation is interrupted; make crash sets it. Without
// it it is once, at a point or an instant that is another one in each run.
const (
	killsVariable = "GARRISON_KILLS"
	cutsVariable  = "GARRISON_CUTS"
	// withinVariable bounds each test's time, as in 20m; then it does as many as it can.
	withinVariable = "GARRISON_WITHIN"
	// firstVariable reports that the first bad one is enough, as for a seeded bug.
	firstVariable = "GARRISON_FIRST_BAD"
)

// operation is one change of the executor itself.
type operation struct {
	name string
	trait
	ends taskv1.State
}

// operations are a life: each starts from where the one before it ended.
var operations = []operation{
	{"self: install", trait{Version: "2.0.0"}, succeeded},
	{"self: upgrade", trait{Version: "3.0.0"}, succeeded},
	{"self: undo, trial", trait{Version: "4.0.0", Crash: "trial"}, undone},
	{"self: undo, start", trait{Version: "5.0.0", Crash: "run"}, undone},
	{"self: remove", trait{}, succeeded},
}

// interruption says who is killed, and when.
type interruption struct {
	point string        // "ROLE: POINT": the first process there kills itself
	after time.Duration // or so long after the start
	trial bool          // the new one on trial if there is one, and not the one that is kept up
	again bool          // and once more, soon after
}

func (k interruption) String() string {
	if k.point != "" {
		return fmt.Sprintf("killed at %q (again %v)", k.point, k.again)
	}
	return fmt.Sprintf("killed after %s (the one on trial %v, again %v)", k.after, k.trial, k.again)
}

// career is one server on which the operations are done and interrupted one after another.
type career struct {
	*box
	disk  *powercut.Disk // nil when only processes are killed
	agent int            // the process that must never change
	have  string         // the version that an image brought, or ""
}

func newCareer(t *testing.T) *career {
	c := &career{box: newBox(t)}
	c.begins()
	return c
}

func (c *career) begins() {
	c.start()
	c.agent = c.install()
	c.stop()
}

// begin puts an operation into the document and starts the executor.
func (c *career) begin(o operation, env ...string) (task string) {
	_ = os.Remove(c.trace())
	if o.Version == "" {
		task = c.unwant("executor")
	} else {
		task = c.want(c.brings(o.trait))
	}
	c.start(append(env, "SELF_TEST_TRACE="+c.trace())...)
	return task
}

func (c *career) trace() string { return filepath.Join(filepath.Dir(c.log), "trace") }

func (c *career) passed() []string {
	data, _ := os.ReadFile(c.trace())
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// end waits for the end of an operation, stops the executor and looks at everything.
func (c *career) end(o operation, task string, k *interruption) (now string, bad []string) {
	now = c.have
	r, err := c.waitEnd(task)
	if err != nil {
		return now, []string{err.Error()}
	}
	if !mayEnd(o, r.GetState(), r.GetOutcome().GetCode(), k) {
		bad = append(
			bad,
			fmt.Sprintf("it ended as %s with %s: %s", r.GetState(), r.GetOutcome().GetCode(),
				r.GetOutcome().GetReason()),
		)
	}
	if r.GetState() == succeeded {
		now = o.Version
	}
	runs := now
	if now == "" {
		runs = "1.0.0"
	}
	c.forgetBeat()
	ok := polltest.Within(polltest.Limit, func() bool {
		a, s := c.box.agent("sleeper"), c.status()
		return c.alone() && s.Version == runs && s.Pid == c.unit.pid() && s.Connected && c.beat() == runs &&
			a.Health == "good" &&
			c.isAgent(int(a.Pid))
	})
	if !ok {
		bad = append(
			bad,
			fmt.Sprintf("executors %v, status %+v, the last beat of version %q; want %s and the agent's process %d",
				c.executors(), c.status(), c.beat(), runs, c.agent),
		)
	}
	if err := c.reported(o, task); err != nil {
		bad = append(bad, err.Error())
	}
	c.stop()
	return now, append(bad, c.settled(task, r.GetState(), now)...)
}

// mayEnd reports whether an end is a true one: a trial that was interrupted is undone, and
// says so; nothing else turns a good version into one that is undone.
func mayEnd(o operation, s taskv1.State, code string, k *interruption) bool {
	if s == o.ends {
		return true
	}
	return k != nil && s == undone && o.Version != "" &&
		slices.Contains([]string{"INTERRUPTED", "CRASHED_EXECUTOR", "EXITED", "UNSTABLE"}, code)
}

// reported looks whether every task was reported with one end only, and a removal with its receipt.
func (c *career) reported(o operation, task string) error {
	var came bool
	var err error
	polltest.Within(polltest.Limit, func() bool {
		came, err = c.receipt(task)
		return came || err != nil || o.Version != ""
	})
	if came != (o.Version == "") {
		err = errors.Join(err, fmt.Errorf("a receipt was reported: %v", came))
	}
	_, twice := c.ends()
	return errors.Join(err, twice)
}

// isAgent reports whether a process is the agent as it must be: the one that it always was,
// or, when the machine lost power, the only one.
func (c *career) isAgent(pid int) bool {
	if c.disk != nil {
		return slices.Equal(c.sleepers(), []int{pid})
	}
	return pid == c.agent
}

// do runs an operation and interrupts it. It returns the step in which it was.
func (c *career) do(o operation, k interruption) (step, now string, bad []string) {
	how, interrupt := "SELF_TEST_KILL=", c.kill
	if c.disk != nil {
		how, interrupt = "SELF_TEST_CUT=", c.lose
	}
	task := c.begin(o, how+k.point)
	step, bad = interrupt(k)
	now, more := c.end(o, task, &k)
	return step, now, append(bad, more...)
}

var errNotPassed = errors.New("the point was not passed")

func (c *career) passes(point string) bool {
	return polltest.Within(polltest.Limit, func() bool { return slices.Contains(c.passed(), point) })
}

// soon is an instant in the start after an interruption.
func soon() time.Duration { return time.Duration(rand.Int64N(int64(300 * time.Millisecond))) }

// kill kills an executor at a point or an instant of the change that was begun, and perhaps
// one more, soon after.
func (c *career) kill(k interruption) (step string, bad []string) {
	if k.point == "" {
		time.Sleep(k.after)
		c.slay(c.unit, k.trial)
	} else if !c.passes(k.point) {
		bad = append(bad, errNotPassed.Error())
	}
	step = stepOf(c.passed())
	if k.again {
		time.Sleep(soon())
		c.slay(c.unit, rand.IntN(2) == 0)
	}
	return step, bad
}

// slay kills the executor that is kept up, or the one on trial.
func (c *career) slay(u *unit, trial bool) {
	for _, p := range c.executors() {
		if trial && p.trial {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
			return
		}
	}
	u.mu.Lock()
	_ = u.cmd.Process.Kill()
	u.mu.Unlock()
}

// stepOf returns the step in which an executor was that passed these points.
func stepOf(passed []string) string {
	step := "start"
	for _, p := range passed {
		_, point, _ := strings.Cut(p, ": ")
		if s, ok := strings.CutPrefix(point, "begin "); ok {
			step = s
		}
		switch point {
		case "let go":
			step = "trial"
		case "tried":
			step = "prove"
		case "become", "ended":
			step = point
		}
	}
	return step
}

// plainRun is what an operation is when nothing interrupts it.
type plainRun struct {
	points []string
	span   time.Duration
}

func (c *career) plain(o operation) plainRun {
	c.t.Helper()
	began := time.Now()
	task := c.begin(o)
	if _, err := c.waitEnd(task); err != nil {
		c.t.Fatal(err)
	}
	p := plainRun{span: time.Since(began)}
	now, bad := c.end(o, task, nil)
	for _, b := range bad {
		c.t.Errorf("%s, not interrupted: %s", o.name, b)
	}
	for _, point := range c.passed() {
		if !slices.Contains(p.points, point) && !strings.HasSuffix(point, ": recovered") {
			p.points = append(p.points, point)
		}
	}
	c.have = now
	return p
}

// kill chooses how an operation is interrupted: at each point in turn, and then at random
// instants. When there are fewer turns than points, they are chosen at random.
func (p plainRun) kill(turn, most int) interruption {
	k := interruption{
		after: time.Duration(rand.Int64N(int64(p.span))),
		trial: rand.IntN(2) == 0,
		again: rand.IntN(3) == 0,
	}
	switch {
	case most >= len(p.points) && turn < len(p.points):
		k.point = p.points[turn]
	case most < len(p.points) && rand.IntN(2) > 0:
		k.point = p.points[rand.IntN(len(p.points))]
	}
	return k
}

func TestAnExecutorThatReplacesItselfKilledAtAnyInstantIsOneWholeVersion(t *testing.T) {
	t.Parallel()
	interrupt(t, "SIGKILL, itself", killsVariable, newCareer)
}

// round does every operation as often as it is asked to, and interrupts it each time.
type round struct {
	most, careers int
	until         time.Time
	runs          map[string]plainRun // by operation
	count         *tally.Tally
	begin         func(*testing.T) *career
}

func interrupt(t *testing.T, title, variable string, begin func(*testing.T) *career) {
	r := &round{most: 1, careers: 1, until: time.Now().Add(4 * time.Hour), runs: map[string]plainRun{}, begin: begin}
	r.ask(t, variable)
	var names []string
	for c, n := begin(t), 0; n < len(operations); n++ {
		names = append(names, operations[n].name)
		r.runs[operations[n].name] = c.plain(operations[n])
	}
	r.count = tally.Begin(title, names...)
	began := time.Now()
	r.interruptAll(t)
	if bad, err := r.count.Print(os.Stdout, time.Since(began)); bad > 0 || err != nil {
		t.Errorf("%d of the interruptions left something bad (%v)", bad, err)
	}
}

// ask reads what is asked for.
func (r *round) ask(t *testing.T, variable string) {
	t.Helper()
	if v := os.Getenv(variable); v != "" {
		most, err := strconv.Atoi(v)
		if err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
		r.most, r.careers = most, 3
	}
	if v := os.Getenv(withinVariable); v != "" {
		within, err := time.ParseDuration(v)
		if err != nil {
			t.Fatalf("%s: %v", withinVariable, err)
		}
		r.until = time.Now().Add(within)
	}
}

func (r *round) interruptAll(t *testing.T) {
	enough := func() bool { return os.Getenv(firstVariable) != "" && t.Failed() }
	turns := make(chan int, r.most)
	for n := range r.most {
		turns <- n
	}
	close(turns)
	t.Run("careers", func(t *testing.T) {
		for n := range r.careers {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				c := r.begin(t)
				for turn := range turns {
					if time.Now().After(r.until) || enough() {
						return
					}
					c = r.live(t, c, turn)
				}
			})
		}
	})
}

// live does every operation once. A career that turned bad is given up for a new one.
func (r *round) live(t *testing.T, c *career, turn int) *career {
	for n, o := range operations {
		if n > 0 && c.have == "" { // what was interrupted was undone: there is nothing yet to upgrade or to remove
			c.plain(operations[0])
		}
		k := r.runs[o.name].kill(turn, r.most)
		step, now, bad := c.do(o, k)
		came := tally.Old
		switch {
		case len(bad) > 0:
			came = tally.Bad
		case now == o.Version:
			came = tally.New
		}
		r.count.Add(o.name, step, came)
		if len(bad) > 0 {
			t.Errorf("%s, %s, in %s: %s", o.name, k, step, strings.Join(bad, "; "))
			return r.begin(t)
		}
		c.have = now
	}
	return c
}
