package freeport_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/freeport"
)

// otherVariable makes the test's program another process, which takes ports until its input ends.
const otherVariable = "FREEPORT_OTHER"

const taken = 100 // more than a block

func TestMain(m *testing.M) {
	if os.Getenv(otherVariable) == "" {
		os.Exit(m.Run())
	}
	for range taken {
		port, err := freeport.Take()
		if err != nil {
			panic(err)
		}
		fmt.Println(port)
	}
	fmt.Println("end")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// other starts a process that takes ports, and returns them while it still runs.
func other(t *testing.T) (ports []int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), otherVariable+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	var said bytes.Buffer
	for !strings.Contains(said.String(), "end") {
		part := make([]byte, 4096)
		n, err := out.Read(part)
		if err != nil {
			t.Fatalf("%v after %q", err, said.String())
		}
		said.Write(part[:n])
	}
	for _, line := range strings.Fields(said.String()) {
		var port int
		if _, err := fmt.Sscan(line, &port); err == nil {
			ports = append(ports, port)
		}
	}
	return ports
}

func TestEachPortIsTakenOnceByAllProcessesAndCanBeListenedAt(t *testing.T) {
	ports := slices.Concat(other(t), other(t))
	for range taken {
		port, err := freeport.Take()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", freeport.Address(port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		ports = append(ports, port)
	}
	slices.Sort(ports)
	if n := len(slices.Compact(slices.Clone(ports))); n != 3*taken || len(ports) != 3*taken {
		t.Errorf("%d ports, %d of them different, want %d", len(ports), n, 3*taken)
	}
	if ports[0] < 1024 || ports[len(ports)-1] >= 32768 {
		t.Errorf("ports from %d to %d, want none of the kernel's", ports[0], ports[len(ports)-1])
	}
}

func TestAPortThatIsListenedAtIsPassedOver(t *testing.T) {
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", freeport.Address(port+1))
	if err != nil {
		t.Skip(err) // the end of a block, or another program listens there
	}
	defer func() { _ = l.Close() }()
	if next, err := freeport.Take(); err != nil || next == port+1 {
		t.Errorf("port %d (%v), at which a process listens", next, err)
	}
}
