// Command agent is a tiny agent for tests. Its first argument says what it does:
// "ready" says READY=1 and runs until SIGTERM; "plain" runs until SIGTERM; "mute" never
// says READY=1; "crash" ends at once; "setup" writes a file and ends well; "stubborn"
// says READY=1 and ignores SIGTERM; "later" says READY=1 and ends after a while; "lapse"
// does so once its state has a file lapse; "serve"
// says its version to each connection at LISTEN_FDS' first socket or else at $ADDRESS, and
// listens no more after SIGUSR1;
// "family" says READY=1 and has three children, one of which ignores SIGTERM; "daemon"
// says READY=1 and has a child in another session that has one in a third, which ignores
// SIGTERM, and ends itself; "flood"
// says READY=1 and writes 64 MB/s; "check" is no agent but a probe: it ends well unless
// the agent's state has a file sick, which it quotes; "poison" makes that file and ends; "configured" reads its second
// argument at the start and at each SIGHUP, writes the level there into its state's file
// seen, and ends when that is bad; "rehearse" ends badly when it is wrong; "look" tries
// to write into each directory that its further arguments name, keeps what it is and what
// it could do in its state's file looked, and says READY=1; "hungry" says READY=1 and
// takes ever more memory; "behind" has a process serve that is no child of it.
package main

import (
	"bytes"
	"encoding/json"
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
	if do := brief[what]; do != nil {
		do(version)
		return
	}
	begin(what)
	run(what, version, stop)
}

// brief is what ends by itself, at once.
var brief = map[string]func(version string){
	"crash": func(version string) {
		fmt.Fprintln(os.Stderr, "agent", version, "cannot go on")
		os.Exit(3)
	},
	"setup": func(version string) { keep("setup", version) },
	"check": func(string) {
		if why, err := os.ReadFile(filepath.Join(os.Getenv("GARRISON_STATE"), "sick")); err == nil {
			fmt.Println(string(why))
			os.Exit(9)
		}
	},
	"poison": func(string) {
		keep("sick", "poisoned")
		os.Exit(3)
	},
	"setup-fails": func(string) { os.Exit(5) },
	"rehearse": func(string) {
		if l := level(); l == "wrong" {
			fmt.Println("the level is", l)
			os.Exit(11)
		}
	},
	"behind": func(string) { // a child of a child that has ended, in another session, serves
		leave("behind-it")
		time.Sleep(time.Hour)
	},
	"behind-it": func(string) { leave("serve") },
	"away": func(string) { // the first of two that part from a daemon
		leave("stubborn")
	},
}

// keep keeps something in the agent's state.
func keep(name, what string) {
	if err := os.WriteFile(filepath.Join(os.Getenv("GARRISON_STATE"), name), []byte(what), 0o600); err != nil {
		os.Exit(4)
	}
}

// begin does what comes before READY=1, and says that.
func begin(what string) {
	switch what {
	case "plain", "mute", "serve":
		return
	case "configured":
		configured("start")
		hangup := make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP)
		go func() {
			for range hangup {
				configured("reload")
			}
		}()
	case "look":
		look()
	case "daemon":
		leave("away")
	}
	ready()
}

// run goes on until SIGTERM, or for as long as it pleases.
func run(what, version string, stop <-chan os.Signal) {
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
	case "hungry":
		for all := [][]byte{}; ; time.Sleep(time.Millisecond) {
			all = append(all, bytes.Repeat([]byte{1}, 4<<20))
		}
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
	case "lapse":
		lapse(stop)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour)
	default:
		<-stop
	}
}

// lapse ends a second after its start at the earliest, and not before its state has a file lapse.
func lapse(stop <-chan os.Signal) {
	for began := time.Now(); ; {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-stop:
			return
		}
		_, err := os.Stat(filepath.Join(os.Getenv("GARRISON_STATE"), "lapse"))
		if err == nil && time.Since(began) > time.Second {
			os.Exit(6)
		}
	}
}

// leave starts itself as something else in a session of its own.
func leave(what string) {
	cmd := exec.Command(os.Args[0], what)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		os.Exit(8)
	}
}

// look keeps what the agent is and what it can do.
func look() {
	seen := map[string]any{"uid": os.Getuid(), "gid": os.Getgid(), "args": os.Args[1:], "env": os.Environ()}
	seen["groups"], _ = os.Getgroups()
	for _, dir := range os.Args[2:] {
		file := filepath.Join(dir, "looked-by-an-agent")
		err := os.WriteFile(file, nil, 0o600)
		_ = os.Remove(file)
		seen[dir] = err == nil
	}
	_, err := os.ReadDir("/root")
	seen["home"] = err == nil
	data, err := json.Marshal(seen)
	if err != nil {
		os.Exit(14)
	}
	if err := os.WriteFile(filepath.Join(os.Getenv("GARRISON_STATE"), "looked"), data, 0o644); err != nil {
		fmt.Println(err)
		os.Exit(15)
	}
}

// configured looks at the configuration, and keeps what it saw.
func configured(why string) {
	l := level()
	seen, err := os.OpenFile(filepath.Join(os.Getenv("GARRISON_STATE"), "seen"), os.O_CREATE|os.O_APPEND|os.O_WRONLY,
		0o600)
	if err != nil {
		os.Exit(12)
	}
	fmt.Fprintln(seen, why, l)
	seen.Close()
	if l == "bad" {
		fmt.Println("the level is bad")
		os.Exit(3)
	}
}

func level() string {
	data, err := os.ReadFile(os.Args[2])
	if err != nil {
		fmt.Println(err)
		os.Exit(13)
	}
	l, _, _ := strings.Cut(strings.TrimPrefix(string(data), "level = "), "\n")
	return l
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
	deaf := make(chan os.Signal, 1)
	signal.Notify(deaf, syscall.SIGUSR1)
	ready()
	select {
	case <-deaf:
		l.Close()
		<-stop
	case <-stop:
		l.Close()
	}
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
