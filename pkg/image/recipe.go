package image

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/manifest"
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
	Machine      *machineRecipe    `json:"machine"`
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

// manifest turns the recipe into a manifest without a blob, and adds its faults; the options win over the file.
func (r *recipe) manifest(f *manifest.Faults, o BuildOptions) *imagev1.Manifest {
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
		f.Add("kind", code.BadRecipe, "%s: kind %q is not known (want daemon, oneshot, files or self)", RecipeName,
			r.Kind)
	}
	m.Machine = r.Machine.machine(f)
	m.Run = r.Run.run(f)
	f.Settings(m)
	return m
}

func (r *runRecipe) run(f *manifest.Faults) *imagev1.Run {
	if r == nil {
		return nil
	}
	out := &imagev1.Run{Command: r.Command, Args: r.Args, Env: r.Env}
	var ok bool
	if out.Takeover, ok = takeovers[r.Takeover]; !ok {
		f.Add("run.takeover", code.BadRecipe, "%s: run.takeover %q is not known (want restart or overlap)", RecipeName,
			r.Takeover)
	}
	out.StopTimeoutMs = millis(f, "run.stop_timeout", r.StopTimeout)
	for _, s := range r.Sockets {
		out.Sockets = append(out.Sockets, &imagev1.Socket{Name: s.Name, Listen: s.Listen})
	}
	out.Limits, out.Sandbox = r.Limits.limits(f), r.Sandbox.sandbox()
	r.configure(f, out)
	out.Ready = r.Ready.ready(f)
	return out
}

func (r *readyRecipe) ready(f *manifest.Faults) *imagev1.Ready {
	if r == nil {
		return nil
	}
	out := &imagev1.Ready{
		RestartAfter: r.RestartAfter,
		TimeoutMs:    millis(f, "run.ready.timeout", r.Timeout),
		SoakMs:       millis(f, "run.ready.soak", r.Soak),
		BusTimeoutMs: millis(f, "run.ready.bus", r.Bus),
	}
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
		f.Add("run.ready", code.BadRecipe, "%s: run.ready has %d probes, want one of notify, http, tcp and exec",
			RecipeName, probes)
	}
	return out
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

// machineRecipe describes what the image needs of a machine.
type machineRecipe struct {
	Kernel        string            `json:"kernel"`
	Distributions map[string]string `json:"distributions"` // least versions, by id
	CgroupV2      bool              `json:"cgroup_v2"`
	Memory        string            `json:"memory"`
	Disk          string            `json:"disk"`
}

func (r *machineRecipe) machine(f *manifest.Faults) *imagev1.Machine {
	if r == nil {
		return nil
	}
	out := &imagev1.Machine{
		Kernel: r.Kernel, CgroupV2: r.CgroupV2, MemoryBytes: size(f, "machine.memory", r.Memory),
		DiskBytes: size(f, "machine.disk", r.Disk),
	}
	for _, id := range slices.Sorted(maps.Keys(r.Distributions)) {
		out.Distributions = append(out.Distributions, &imagev1.Distribution{Id: id, Version: r.Distributions[id]})
	}
	return out
}

// millis parses a duration such as 30s; the empty string is 0, which means the default.
func millis(f *manifest.Faults, field, s string) uint32 {
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Millisecond || d > time.Hour {
		f.Add(field, code.BadRecipe, "%s: %s %q is not a time from 1ms to 1h, such as 30s", RecipeName, field, s)
		return 0
	}
	return uint32(d.Milliseconds())
}
