package image

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// RecipeName is the name of the file that describes the image of a directory.
const RecipeName = "garrison.yaml"

// recipe is the content of garrison.yaml.
type recipe struct {
	Agent       string            `json:"agent"`
	Version     string            `json:"version"`
	Kind        string            `json:"kind"`
	OS          string            `json:"os"`
	Arch        string            `json:"arch"`
	Description string            `json:"description"`
	Tags        map[string]string `json:"tags"`
	Run         *runRecipe        `json:"run"`

	ExecutorVersion string   `json:"executor_version"`
	Conflicts       []string `json:"conflicts"`

	UpgradesFrom []string          `json:"upgrades_from"`
	Skips        []string          `json:"skips"`
	Floor        string            `json:"floor"`
	Requires     map[string]string `json:"requires"`
}

type runRecipe struct {
	Command     string            `json:"command"`
	Args        []string          `json:"args"`
	Env         map[string]string `json:"env"`
	Takeover    string            `json:"takeover"`
	Ready       *readyRecipe      `json:"ready"`
	StopTimeout string            `json:"stop_timeout"`
	Sockets     []socketRecipe    `json:"sockets"`
	Limits      *limitsRecipe     `json:"limits"`
	Sandbox     *sandboxRecipe    `json:"sandbox"`
	Configs     []configRecipe    `json:"configs"`
	Reload      string            `json:"reload"`
	Rehearsal   *execRecipe       `json:"rehearsal"`
}

type socketRecipe struct {
	Name   string `json:"name"`
	Listen string `json:"listen"`
}

type readyRecipe struct {
	Notify  bool        `json:"notify"`
	HTTP    string      `json:"http"`
	TCP     string      `json:"tcp"`
	Exec    *execRecipe `json:"exec"`
	Timeout string      `json:"timeout"`
	Soak    string      `json:"soak"`
	Bus     string      `json:"bus"`

	RestartAfter *uint32 `json:"restart_after"`
}

var (
	kinds = map[string]agentv1.Kind{
		"daemon": agentv1.Kind_KIND_DAEMON, "oneshot": agentv1.Kind_KIND_ONESHOT, "files": agentv1.Kind_KIND_FILES,
		"self": agentv1.Kind_KIND_SELF, "external": agentv1.Kind_KIND_EXTERNAL,
	}
	takeovers = map[string]imagev1.Takeover{
		"":        imagev1.Takeover_TAKEOVER_UNSPECIFIED,
		"restart": imagev1.Takeover_TAKEOVER_RESTART,
		"overlap": imagev1.Takeover_TAKEOVER_OVERLAP,
	}
)

// manifest turns the recipe into a manifest without a blob; the options win over the file.
func (r *recipe) manifest(o BuildOptions) (*imagev1.Manifest, error) {
	m := &imagev1.Manifest{
		Agent:   r.Agent,
		Version: cmp.Or(o.Version, r.Version),
		Platform: &serverv1.Platform{
			Os:   cmp.Or(o.OS, r.OS, runtime.GOOS),
			Arch: cmp.Or(o.Arch, r.Arch, runtime.GOARCH),
		},
		Tags:        r.Tags,
		Description: r.Description,

		ExecutorVersion: r.ExecutorVersion, Conflicts: r.Conflicts,

		UpgradesFrom: r.UpgradesFrom, Skips: r.Skips, Floor: r.Floor,
	}
	for _, agent := range slices.Sorted(maps.Keys(r.Requires)) {
		m.Requires = append(m.Requires, &imagev1.Requirement{Agent: agent, Versions: r.Requires[agent]})
	}
	var ok bool
	if m.Kind, ok = kinds[r.Kind]; !ok {
		return nil, refuse(code.BadRecipe, "%s: kind %q is not known (want daemon, oneshot, files or self)", RecipeName,
			r.Kind)
	}
	var err error
	if m.Run, err = r.Run.run(); err != nil {
		return nil, err
	}
	for _, check := range []func(*imagev1.Manifest) error{
		checkNames, checkKind, checkNeeds, checkPaths, checkRun, checkSockets, checkConfigs, checkConfinement,
		checkTexts,
	} {
		if err := check(m); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (r *runRecipe) run() (*imagev1.Run, error) {
	if r == nil {
		return nil, nil
	}
	out := &imagev1.Run{Command: r.Command, Args: r.Args, Env: r.Env}
	var ok bool
	if out.Takeover, ok = takeovers[r.Takeover]; !ok {
		return nil, refuse(code.BadRecipe, "%s: run.takeover %q is not known (want restart or overlap)", RecipeName,
			r.Takeover)
	}
	var err error
	if out.StopTimeoutMs, err = millis("run.stop_timeout", r.StopTimeout); err != nil {
		return nil, err
	}
	for _, s := range r.Sockets {
		out.Sockets = append(out.Sockets, &imagev1.Socket{Name: s.Name, Listen: s.Listen})
	}
	if out.Limits, err = r.Limits.limits(); err != nil {
		return nil, err
	}
	out.Sandbox = r.Sandbox.sandbox()
	if err := r.configure(out); err != nil {
		return nil, err
	}
	out.Ready, err = r.Ready.ready()
	return out, err
}

func (r *readyRecipe) ready() (*imagev1.Ready, error) {
	if r == nil {
		return nil, nil
	}
	out := &imagev1.Ready{RestartAfter: r.RestartAfter}
	probes := 0
	if r.Notify {
		out.Probe, probes = &imagev1.Ready_Notify{Notify: true}, probes+1
	}
	if r.HTTP != "" {
		out.Probe, probes = &imagev1.Ready_Http{Http: r.HTTP}, probes+1
	}
	if r.TCP != "" {
		out.Probe, probes = &imagev1.Ready_Tcp{Tcp: r.TCP}, probes+1
	}
	if r.Exec != nil {
		out.Probe, probes = &imagev1.Ready_Exec{Exec: r.Exec.exec()}, probes+1
	}
	if probes > 1 {
		return nil, refuse(code.BadRecipe, "%s: run.ready has %d probes, want one of notify, http, tcp and exec",
			RecipeName, probes)
	}
	var err error
	if out.TimeoutMs, err = millis("run.ready.timeout", r.Timeout); err != nil {
		return nil, err
	}
	if out.SoakMs, err = millis("run.ready.soak", r.Soak); err != nil {
		return nil, err
	}
	out.BusTimeoutMs, err = millis("run.ready.bus", r.Bus)
	return out, err
}

// millis parses a duration such as 30s; the empty string is 0, which means the default.
func millis(what, s string) (uint32, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Millisecond || d > time.Hour {
		return 0, refuse(code.BadRecipe, "%s: %s %q is not a time from 1ms to 1h, such as 30s", RecipeName, what, s)
	}
	return uint32(d.Milliseconds()), nil
}
