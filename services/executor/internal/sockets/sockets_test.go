package sockets

import (
	"net"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/freeport"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// memory stores the marks of one agent, and outlives sets.
type memory struct{ marks []Mark }

// set returns a new set, as after a restart of the executor. The test itself is its agent's only process.
func (m *memory) set(t *testing.T) *Set {
	s := New(Config{
		Recall:   func(string) ([]Mark, error) { return m.marks, nil },
		Remember: func(_ string, marks []Mark) error { m.marks = marks; return nil },
		Holders:  func(string) []int { return []int{os.Getpid()} },
		Log:      zerolog.New(zerolog.NewTestWriter(t)),
	})
	t.Cleanup(s.Close)
	return s
}

func at(addresses ...string) (out []*imagev1.Socket) {
	for _, a := range addresses {
		out = append(out, &imagev1.Socket{Name: "main", Listen: a})
	}
	return out
}

func listen(t *testing.T) (net.Listener, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, l.Addr().String()
}

func free(t *testing.T) string {
	t.Helper()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	return freeport.Address(port)
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if got := fault.RefusalOf(err).GetCode(); got != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

func refused(t *testing.T, address string) {
	t.Helper()
	if c, err := net.Dial("tcp", address); err == nil {
		_ = c.Close()
		t.Errorf("a process listens at %s", address)
	}
}

func TestAllSocketsAreOpenedOrNone(t *testing.T) {
	m := &memory{}
	s := m.set(t)
	s.cfg.Holders = func(string) []int { return nil }
	_, taken := listen(t)
	open := free(t)
	wantCode(t, s.Hold("a", at(open, taken)), code.SocketTaken)
	refused(t, open)
	if len(m.marks) > 0 {
		t.Errorf("remembered %v", m.marks)
	}
}

func TestAnInvalidAddressIsRefused(t *testing.T) {
	s := (&memory{}).set(t)
	for _, a := range []string{
		"", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:http", "127.0.0.1:65536", "localhost:80", "192.0.2.1:80", "[::1:80",
	} {
		wantCode(t, s.Hold("a", at(a)), code.BadSocket)
	}
	same := free(t)
	wantCode(t, s.Hold("a", at(same, same)), code.BadSocket)
}

func TestASocketIsTakenBackByItsInode(t *testing.T) {
	m := &memory{}
	address := free(t)
	files, err := m.set(t).Files("a", at(address))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = files[0].Close() }() // the agent's duplicate
	before := m.marks
	s := m.set(t)
	if err := s.Regain("a"); err != nil {
		t.Fatal(err)
	}
	if inode, err := s.Inode("a", address); err != nil || inode != before[0].Inode {
		t.Errorf("inode %d (%v), want %d", inode, err, before[0].Inode)
	}
	if err := s.Hold("a", at(address)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, m.marks); d != "" {
		t.Error(d)
	}
}

func TestASocketWithoutAHolderIsOpenedAnew(t *testing.T) {
	address := free(t)
	m := &memory{marks: []Mark{{Listen: address, Inode: 1}}}
	s := m.set(t)
	if err := s.Regain("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Inode("a", address); err == nil {
		t.Error("it was taken from nowhere")
	}
	if err := s.Hold("a", at(address)); err != nil {
		t.Fatal(err)
	}
	if inode, _ := s.Inode("a", address); inode != m.marks[0].Inode {
		t.Errorf("remembered %v, want %d", m.marks, inode)
	}
}

func TestOnlyASocketThatListensThereIsTaken(t *testing.T) {
	_, address := listen(t)
	other, err := parse(at(free(t))[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.take([]int{os.Getpid()}, 0); err == nil {
		t.Error("it was taken from another address")
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	connected, err := parse(at(conn.LocalAddr().String())[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connected.take([]int{os.Getpid()}, 0); err == nil {
		t.Error("a connection was taken")
	}
	here, err := parse(at(address)[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := here.take([]int{os.Getpid()}, 0); err != nil {
		t.Error(err)
	}
}

func TestASocketThatIsNotKeptIsClosedAndForgotten(t *testing.T) {
	m := &memory{}
	s := m.set(t)
	one, two := free(t), free(t)
	if err := s.Hold("a", at(one, two)); err != nil {
		t.Fatal(err)
	}
	if err := s.Keep("a", at(two)); err != nil {
		t.Fatal(err)
	}
	refused(t, one)
	if len(m.marks) != 1 || m.marks[0].Listen != two {
		t.Errorf("remembered %v", m.marks)
	}
	if err := s.Keep("a", nil); err != nil || len(m.marks) > 0 {
		t.Errorf("remembered %v, %v", m.marks, err)
	}
	refused(t, two)
}

func TestAHandedSocketStaysNonBlocking(t *testing.T) {
	s := (&memory{}).set(t)
	address := free(t)
	files, err := s.Files("a", at(address))
	if err != nil {
		t.Fatal(err)
	}
	_ = files[0].Fd() // as a start of a process does
	if !nonBlocking(s.held["a"][address].fd) {
		t.Error("it is blocking now")
	}
	_ = files[0].Close()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}
