package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// written is an output file that a test writes to as an agent does.
type written struct {
	t    *testing.T
	path string
	m    *marker
}

func newWritten(t *testing.T) *written {
	path := filepath.Join(t.TempDir(), "output.log")
	return &written{t: t, path: path, m: &marker{path: path}}
}

func (w *written) add(text string) {
	w.t.Helper()
	f, err := OpenOutput(w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString(text); err != nil {
		w.t.Fatal(err)
	}
}

func (w *written) tend() { quick.tendOutput(w.m, zerolog.Nop()) }

// all reads an output in small parts from a position on.
func (w *written) all(position int64) (text string, cut bool) {
	w.t.Helper()
	for {
		data, next, c, err := Output(w.path).Read(position, 7)
		if err != nil {
			w.t.Fatal(err)
		}
		cut = cut || c
		if len(data) == 0 {
			return text, cut
		}
		text, position = text+string(data), next
	}
}

func TestPositionsStayValidWhenTheOutputIsCut(t *testing.T) {
	w := newWritten(t)
	var whole strings.Builder
	position := int64(0)
	var read strings.Builder
	for n := range 400 {
		line := fmt.Sprintf("line %d\n", n)
		w.add(line)
		whole.WriteString(line)
		w.tend()
		if n%50 == 0 { // a reader that is slower than the output, and faster than what is kept
			text, cut := w.all(position)
			if cut {
				t.Fatalf("at line %d, output was discarded", n)
			}
			read.WriteString(text)
			position += int64(len(text))
		}
	}
	text, _ := w.all(position)
	read.WriteString(text)
	if read.String() != whole.String() {
		t.Errorf("read %d bytes, written were %d", read.Len(), whole.Len())
	}
	if _, err := os.Stat(before(w.path)); err != nil {
		t.Errorf("the output was never cut: %v", err)
	}
}

func TestWhatIsWrittenWhileTheOutputIsCutIsKept(t *testing.T) {
	w := newWritten(t)
	w.add(strings.Repeat("x", int(quick.OutputBytes)) + "\n")
	found := quick.OutputBytes + 1
	w.add("last 1\nlast 2\n")
	if err := quick.cutOutput(w.path, found); err != nil {
		t.Fatal(err)
	}
	w.add("last 3\n")
	if text, _ := w.all(found); text != "last 1\nlast 2\nlast 3\n" {
		t.Errorf("behind the size that was found: %q", text)
	}
}

func TestAnAgentThatWritesFasterThanItsOutputIsCopiedKeepsItsEnd(t *testing.T) {
	w := newWritten(t)
	w.add(strings.Repeat("x", 10*int(quick.OutputBytes)) + "last\n")
	if err := quick.cutOutput(w.path, quick.OutputBytes); err != nil {
		t.Fatal(err)
	}
	kept, _ := os.ReadFile(before(w.path))
	if text, _ := w.all(0); text != string(kept) || !strings.HasSuffix(text, "xlast\n") {
		t.Errorf("%d bytes that end with %q", len(text), text[max(0, len(text)-20):])
	}
	if int64(len(kept)) != quick.OutputBytes {
		t.Errorf("%d bytes are kept", len(kept))
	}
}

func TestTheTailReachesIntoWhatWasCutOff(t *testing.T) {
	w := newWritten(t)
	w.add(strings.Repeat("old\n", int(quick.OutputBytes)/4))
	from := Output(w.path).Next()
	w.add("no licence\n")
	w.tend()
	if got := LastLine(w.path, from, nil); got != "no licence" {
		t.Errorf("after the cut, the last line is %q", got)
	}
	w.add("good bye\n")
	if got := Tail(w.path, from, 4096); got != "no licence\ngood bye\n" {
		t.Errorf("the tail is %q", got)
	}
}

func TestTheVersionOfAnOutputStaysKnownWhenItIsCutAndMoved(t *testing.T) {
	w := newWritten(t)
	for _, version := range []string{"1.0.0", "2.0.0"} {
		if err := Output(w.path).Starts(version); err != nil {
			t.Fatal(err)
		}
		w.add(strings.Repeat("x", int(quick.OutputBytes)))
		w.tend()
	}
	to := filepath.Join(t.TempDir(), "kept", "output.log")
	if err := Output(w.path).MoveTo(to); err != nil {
		t.Fatal(err)
	}
	for position, want := range map[int64]string{0: "2.0.0", quick.OutputBytes: "2.0.0"} {
		_, next, _, err := Output(to).Read(position, 1)
		if got, _ := Output(to).VersionAt(next - 1); err != nil || got != want {
			t.Errorf("what is kept from %d on is of %q, %v", position, got, err)
		}
	}
	if n := len(readMarks(to).starts); n != 1 {
		t.Errorf("%d versions are kept, want the one of what is kept", n)
	}
	if left, _ := filepath.Glob(w.path + "*"); len(left) > 0 {
		t.Errorf("left at the old place: %v", left)
	}
}

func TestAMoveThatCrashedBetweenTwoFilesLosesNothing(t *testing.T) {
	files := []string{"output.log.1", "output.log.marks", "output.log"}
	for moved := range len(files) + 1 {
		w := newWritten(t)
		w.add(strings.Repeat("old\n", int(quick.OutputBytes)/4))
		w.tend()
		w.add("new\n")
		want, _ := w.all(0)
		dir := t.TempDir()
		to := filepath.Join(dir, "output.log")
		if moved == 0 { // the output of an earlier installation is still there
			for _, path := range []string{to, before(to)} {
				if err := writeOutput(path, []byte("earlier")); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, name := range files[:moved] {
			if err := os.Rename(filepath.Join(filepath.Dir(w.path), name), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := Output(w.path).MoveTo(to); err != nil {
			t.Fatal(err)
		}
		w.path = to
		if got, _ := w.all(0); got != want {
			t.Errorf("after a crash behind %v, %d bytes are left, want %d", files[:moved], len(got), len(want))
		}
	}
}

func TestAReaderThatIsTooSlowLearnsThatOutputWasDiscarded(t *testing.T) {
	w := newWritten(t)
	for n := range 2000 {
		w.add(fmt.Sprintf("line %d\n", n))
		w.tend()
	}
	text, cut := w.all(0)
	if !cut || !strings.HasSuffix(text, "line 1999\n") || int64(len(text)) < quick.OutputBytes {
		t.Errorf("cut %v, %d bytes that end with %q", cut, len(text), text[max(0, len(text)-20):])
	}
}

func TestThePositionOfAnotherInstallationIsNotUsed(t *testing.T) {
	w := newWritten(t)
	w.add("new\n")
	if text, cut := w.all(1 << 40); text != "new\n" || !cut {
		t.Errorf("%q, cut %v", text, cut)
	}
}

func TestTheLastLinesAreFoundInBothFiles(t *testing.T) {
	w := newWritten(t)
	for n := range 300 {
		w.add(fmt.Sprintf("line %d\n", n))
		w.tend()
	}
	for _, n := range []int{1, 2, 30, 150} {
		position, err := Output(w.path).Last(n)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := w.all(position)
		if !strings.HasPrefix(text, fmt.Sprintf("line %d\n", 300-n)) || strings.Count(text, "\n") != n {
			t.Errorf("the last %d lines: %d lines that begin with %.10q", n, strings.Count(text, "\n"), text)
		}
	}
	if position, err := Output(w.path).Last(1 << 20); err != nil || position < 0 {
		t.Errorf("more lines than there are: %d, %v", position, err)
	}
	w.add("without an end")
	position, err := Output(w.path).Last(1)
	if text, _ := w.all(position); err != nil || text != "without an end" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestOutputSinceATimeHasEverythingThatWasWrittenAfterIt(t *testing.T) {
	w := newWritten(t)
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for n := range 10 {
		w.add("0123456789")
		if err := w.m.mark(int64(10*(n+1)), noon.Add(time.Duration(n)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	for at, want := range map[time.Duration]int64{
		-time.Hour: 0, 0: 10, 90 * time.Second: 20, 9 * time.Minute: 100, time.Hour: 100,
	} {
		if got, err := Output(w.path).Since(noon.Add(at)); err != nil || got != want {
			t.Errorf("since %s: %d, %v; want %d", at, got, err, want)
		}
	}
}

func TestOutputHasTheTimesByWhichItWasWritten(t *testing.T) {
	w := newWritten(t)
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
	for n := range 3 {
		w.add("0123456789")
		if err := w.m.mark(int64(10*(n+1)), at(n)); err != nil {
			t.Fatal(err)
		}
	}
	now := at(60)
	for name, c := range map[string]struct {
		from, to int64
		most     int
		want     []Mark
	}{
		"all":                {0, 30, 9, []Mark{{at(0), 10}, {at(1), 20}, {at(2), 30}}},
		"from within a mark": {5, 15, 9, []Mark{{at(0), 10}, {at(1), 15}}},
		"what is not marked": {15, 40, 9, []Mark{{at(1), 20}, {at(2), 30}, {now, 40}}},
		"too many marks":     {0, 30, 2, []Mark{{at(0), 10}, {at(1), 20}}},
	} {
		have, until := Output(w.path).WrittenBy(c.from, c.to, now, c.most)
		for n := range have {
			have[n].At = have[n].At.UTC()
		}
		if !reflect.DeepEqual(have, c.want) || until != c.want[len(c.want)-1].Position {
			t.Errorf("%s: %v until %d; want %v", name, have, until, c.want)
		}
	}
}

func TestMarksAreBounded(t *testing.T) {
	w := newWritten(t)
	w.add("x")
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	m := outputMarks{base: 5}
	for n := range mostMarks {
		m.marks = append(m.marks, Mark{noon.Add(time.Duration(n) * time.Second), int64(n)})
	}
	if err := m.write(w.path); err != nil {
		t.Fatal(err)
	}
	if err := w.m.mark(1<<20, noon.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	have := readMarks(w.path)
	if len(have.marks) > mostMarks || len(have.marks) < mostMarks/2 || have.base != 5 {
		t.Errorf("%d marks, base %d", len(have.marks), have.base)
	}
	if last := have.marks[len(have.marks)-1]; last.Position != 5+1<<20 {
		t.Errorf("the last mark is at %d", last.Position)
	}
}

// An agent may write the marks, and make the file before as long as it likes, without a byte on the disk.
func TestWhatAnAgentWritesBesideItsOutputCostsAReaderLittle(t *testing.T) {
	w := newWritten(t)
	w.add("one\n")
	if err := os.WriteFile(before(w.path), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(before(w.path), 1<<40); err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{"9223372036854775807", "-5", "1099511627776", "99999999999999999999", "x"} {
		marks := "base " + base + "\n1 9223372036854775807\n1 -1\n"
		if err := os.WriteFile(OutputMarks(w.path), []byte(marks), 0o600); err != nil {
			t.Fatal(err)
		}
		end, err := Output(w.path).End()
		if err != nil || end < 4 || end > mostPosition+4 {
			t.Fatalf("base %s: the end is at %d, %v", base, end, err)
		}
		data, next, cut, err := Output(w.path).Read(end-4, 9)
		if string(data) != "one\n" || next != end || cut || err != nil {
			t.Errorf("base %s: %q, next %d of %d, cut %v, %v", base, data, next, end, cut, err)
		}
		if first, err := Output(w.path).Last(1 << 30); err != nil || end-first > farthestBack {
			t.Errorf("base %s: looked back to %d of %d, %v", base, first, end, err)
		}
	}
}

// An agent may write in its directory. It must not have the executor, which is root, read or write another file.
func TestOutputThatIsALinkOrAPipeIsNotFollowed(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(secret, []byte("root:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func(path string) error{
		"a symbolic link": func(path string) error { return os.Symlink(secret, path) },
		"a hard link":     func(path string) error { return os.Link(secret, path) },
		"a pipe":          func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a directory":     func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		for _, which := range []string{"", ".1", marksName} {
			t.Run(name+" "+which, func(t *testing.T) {
				w := newWritten(t)
				if which != "" {
					w.add(strings.Repeat("x", int(quick.OutputBytes)))
				}
				if err := put(w.path + which); err != nil {
					t.Fatal(err)
				}
				w.tend()
				data, _, _, err := Output(w.path).Read(0, 100)
				if strings.Contains(string(data), "secret") || which == "" && !fault.Is(err, fault.Invalid) {
					t.Errorf("read %q, %v", data, err)
				}
				if got := Tail(w.path+which, 0, 100); strings.Contains(got, "secret") {
					t.Errorf("the tail is %q", got)
				}
				if now, _ := os.ReadFile(secret); string(now) != "root:secret\n" {
					t.Errorf("the other file is %q now", now)
				}
			})
		}
	}
}

func TestAnAgentWithoutOutputIsNotFound(t *testing.T) {
	if _, err := Output(filepath.Join(t.TempDir(), "output.log")).End(); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
}
