// Command agent is a tiny agent for tests. Its first argument says what it does:
// "ready" says READY=1 and runs until SIGTERM; "plain" runs until SIGTERM; "mute" never
// says READY=1; "crash" ends at once; "setup" writes a file and ends well; "stubborn"
// says READY=1 and ignores SIGTERM; "later" says READY=1 and ends after a while; "serve"
// says its version to each connection at LISTEN_FDS' first socket or else at $ADDRESS;
// "family" says READY=1 and has three children, one of which ignores SIGTERM; "flood"
// says READY=1 and writes 64 MB/s.
package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	what, version := os.Args[1], os.Getenv("GARRISON_VERSION")
	fmt.Println("agent", version, what)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	switch what {
	case "crash":
		fmt.Fprintln(os.Stderr, "agent", version, "cannot go on")
		os.Exit(3)
	case "setup":
		if err := os.WriteFile(filepath.Join(os.Getenv("GARRISON_STATE"), "setup"), []byte(version), 0o600); err != nil {
			os.Exit(4)
		}
		return
	case "setup-fails":
		os.Exit(5)
	case "ready", "later", "stubborn", "family", "flood":
		ready()
	}
	switch what {
	case "serve":
		serve(version, stop)
	case "family":
		for _, child := range []string{"plain", "plain", "stubborn"} {
			if err := exec.Command(os.Args[0], child).Start(); err != nil {
				os.Exit(8)
			}
		}
		<-stop
	case "flood":
		for line := []byte(strings.Repeat("x", 64<<10-1) + "\n"); ; time.Sleep(time.Millisecond) {
			_, _ = os.Stdout.Write(line)
		}
	case "later":
		select {
		case <-time.After(300 * time.Millisecond):
			os.Exit(6)
		case <-stop:
		}
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour)
	default:
		<-stop
	}
}

func serve(version string, stop <-chan os.Signal) {
	l, err := listen()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(7)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(conn, version)
			conn.Close()
		}
	}()
	ready()
	<-stop
	l.Close()
	<-ended
}

func listen() (net.Listener, error) {
	if os.Getenv("LISTEN_FDS") == "" {
		return net.Listen("tcp", os.Getenv("ADDRESS"))
	}
	if pid := os.Getenv("LISTEN_PID"); pid != strconv.Itoa(os.Getpid()) || os.Getenv("LISTEN_FDNAMES") != "main" {
		return nil, fmt.Errorf("sockets %q are for process %s", os.Getenv("LISTEN_FDNAMES"), pid)
	}
	return net.FileListener(os.NewFile(3, "main"))
}

func ready() {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.Dial("unixgram", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("READY=1")); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
