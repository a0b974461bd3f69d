// Command agent is a tiny agent for tests. Its first argument says what it does:
// "ready" says READY=1 and runs until SIGTERM; "plain" runs until SIGTERM; "mute" never
// says READY=1; "crash" ends at once; "setup" writes a file and ends well; "stubborn"
// says READY=1 and ignores SIGTERM; "later" says READY=1 and ends after a while.
package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
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
	case "ready", "later", "stubborn":
		ready()
	}
	switch what {
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
