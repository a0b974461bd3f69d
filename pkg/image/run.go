package image

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

func checkKind(m *imagev1.Manifest) error {
	command := m.GetRun().GetCommand()
	switch m.GetKind() {
	case agentv1.Kind_KIND_DAEMON, agentv1.Kind_KIND_ONESHOT:
		if command == "" {
			return refuse(code.BadManifest, "run.command is missing; kinds daemon and oneshot need one")
		}
	case agentv1.Kind_KIND_FILES:
		if command != "" {
			return refuse(code.BadManifest, "run.command is %q, but kind files runs nothing", command)
		}
	case agentv1.Kind_KIND_SELF:
	case agentv1.Kind_KIND_EXTERNAL:
		return refuse(code.UnsupportedKind,
			"agents of kind external have no images (want daemon, oneshot, files or self)")
	default:
		return refuse(code.BadManifest, "kind %v is not known (want daemon, oneshot, files or self)", m.GetKind())
	}
	return nil
}

func checkRun(m *imagev1.Manifest) error {
	r := m.GetRun()
	if r == nil {
		return nil
	}
	if r.Command != "" && !inside(r.Command) {
		return refuse(code.Outside, "run.command %q is not a relative path inside the image", r.Command)
	}
	if err := checkExec("run.ready.exec", r.GetReady().GetExec()); err != nil {
		return err
	}
	if err := checkHTTP(r.GetReady().GetHttp()); err != nil {
		return err
	}
	if err := checkTCP(r.GetReady().GetTcp()); err != nil {
		return err
	}
	if _, ok := imagev1.Takeover_name[int32(r.Takeover)]; !ok {
		return refuse(code.BadManifest, "run.takeover %d is not known (want restart or overlap)", r.Takeover)
	}
	for name, ms := range map[string]uint32{
		"run.stop_timeout":  r.StopTimeoutMs,
		"run.ready.timeout": r.GetReady().GetTimeoutMs(),
		"run.ready.soak":    r.GetReady().GetSoakMs(),
		"run.ready.bus":     r.GetReady().GetBusTimeoutMs(),
	} {
		if ms > maxWaitMs {
			return refuse(code.BadManifest, "%s is %d ms, want at most an hour", name, ms)
		}
	}
	if err := checkRestart(r.GetReady()); err != nil {
		return err
	}
	return checkWords(r)
}

// maxRestartAfter bounds run.ready.restart_after.
const maxRestartAfter = 1000

// checkRestart refuses a count of failed probes where nothing is probed.
func checkRestart(r *imagev1.Ready) error {
	switch n := r.GetRestartAfter(); {
	case n > maxRestartAfter:
		return refuse(code.BadManifest, "run.ready.restart_after is %d, want at most %d", n, maxRestartAfter)
	case n > 0 && r.GetHttp() == "" && r.GetTcp() == "" && r.GetExec() == nil:
		return refuse(code.BadManifest, "run.ready.restart_after counts failed probes, and no probe is repeated "+
			"(want http, tcp or exec)")
	}
	return nil
}

// checkHTTP refuses a probe that is not a URL of http or https with a host. Its scheme, too, may be a variable.
func checkHTTP(probe string) error {
	if probe == "" {
		return nil
	}
	scheme, rest, _ := strings.Cut(probe, "://")
	if variable.MatchString(scheme) {
		scheme = "http"
	}
	// 00 stands for the values: it can be in a host and a port, and behind a %.
	u, err := url.Parse(scheme + "://" + variable.ReplaceAllString(rest, "00"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !isPort(cmp.Or(u.Port(), "80")) {
		return refuse(code.BadManifest,
			"run.ready.http %q is not a URL of http or https with a host, such as http://127.0.0.1:8080/", probe)
	}
	return nil
}

// checkTCP refuses a probe that is not HOST:PORT.
func checkTCP(probe string) error {
	if probe == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(variable.ReplaceAllString(probe, "00"))
	if err != nil || !isPort(port) {
		return refuse(code.BadManifest,
			"run.ready.tcp %q is not HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080", probe)
	}
	return nil
}

// isPort reports whether a text is a port, in which 00 may stand for a variable's value.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 64)
	return err == nil && (n < 1<<16 || strings.Contains(s, "00")) && s != "0"
}

// checkWords checks every text that may contain variables.
func checkWords(r *imagev1.Run) error {
	words := append([]string{r.Command, r.GetReady().GetHttp(), r.GetReady().GetTcp()}, r.Args...)
	for _, s := range r.Sockets {
		words = append(words, s.GetListen())
	}
	words = append(words, execWords(r.GetReady().GetExec())...)
	words = append(words, execWords(r.GetRehearsal())...)
	for name, value := range r.Env {
		if !envName.MatchString(name) {
			return refuse(code.BadManifest, "run.env has the name %q (want letters, digits and underscores)", name)
		}
		words = append(words, name, value)
	}
	total := 0
	for _, w := range words {
		total += len(w)
		if strings.ContainsRune(w, 0) {
			return refuse(code.BadManifest, "run holds a zero byte in %q", w)
		}
		if err := checkVariables(w); err != nil {
			return err
		}
	}
	if total > maxRun || len(words) > 4096 {
		return refuse(code.BadManifest,
			"command, arguments and environment have %d bytes in %d words, want at most %d in 4096", total, len(words),
			maxRun)
	}
	return nil
}

// execRecipe describes a program of the image that runs to completion.
type execRecipe struct {
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

func (r *execRecipe) exec() *imagev1.Exec {
	if r == nil {
		return nil
	}
	return &imagev1.Exec{Command: r.Command, Args: r.Args}
}

// checkExec checks a program that runs beside the agent; what is the key that names it.
func checkExec(what string, e *imagev1.Exec) error {
	if e == nil {
		return nil
	}
	if e.Command == "" {
		return refuse(code.BadManifest, "%s.command is missing", what)
	}
	if !inside(e.Command) {
		return refuse(code.Outside, "%s.command %q is not a relative path inside the image", what, e.Command)
	}
	return nil
}

// execWords returns the texts that may contain variables.
func execWords(e *imagev1.Exec) []string {
	if e == nil {
		return nil
	}
	return append([]string{e.Command}, e.Args...)
}

// maxSockets is how many sockets a manifest may name.
const maxSockets = 16

// checkSockets looks at the sockets that are opened for an agent. What a variable stands
// for is not known here; the executor looks again when it is.
func checkSockets(m *imagev1.Manifest) error {
	sockets := m.GetRun().GetSockets()
	if len(sockets) == 0 {
		return nil
	}
	if m.GetKind() != agentv1.Kind_KIND_DAEMON {
		return refuse(code.BadManifest, "run.sockets is there, but only kind daemon has sockets")
	}
	if len(sockets) > maxSockets {
		return refuse(code.BadManifest, "run.sockets has %d sockets, want at most %d", len(sockets), maxSockets)
	}
	names, addresses := map[string]bool{}, map[string]bool{}
	for _, s := range sockets {
		if err := ident.CheckName("run.sockets name", s.GetName()); err != nil {
			return refuse(code.BadManifest, "%v", err)
		}
		if names[s.Name] || addresses[s.Listen] {
			return refuse(code.BadManifest, "run.sockets names %s at %q, but that name or address is there before",
				s.Name, s.Listen)
		}
		names[s.Name], addresses[s.Listen] = true, true
		if !socketAddress(s.Listen) {
			return refuse(code.BadManifest,
				"run.sockets has %s listen at %q (want IP:PORT or :PORT, such as 127.0.0.1:8080)", s.Name, s.Listen)
		}
	}
	return nil
}

// socketAddress reports whether an address has the shape of one, variables aside.
func socketAddress(listen string) bool {
	const filled = "x" // stands in no address and in no port
	masked := variable.ReplaceAllString(listen, filled)
	if masked == filled {
		return true
	}
	host, port, err := net.SplitHostPort(masked)
	if err != nil {
		return false
	}
	if n, err := strconv.ParseUint(port, 10, 16); !strings.Contains(port, filled) && (err != nil || n == 0) {
		return false
	}
	_, err = netip.ParseAddr(host)
	return host == "" || strings.Contains(host, filled) || err == nil
}
