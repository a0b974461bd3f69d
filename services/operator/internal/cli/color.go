package cli

import (
	"github.com/spf13/pflag"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// The values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

// ColorFlag adds --color.
func ColorFlag(env *Env, f *pflag.FlagSet) {
	env.Color = colorAuto
	words := []string{colorAuto, colorAlways, colorNever}
	f.Var(textValue(&env.Color, OneOf("value", words)).Words(words), "color",
		"color tables and messages: `WHEN` is auto (on a terminal, unless NO_COLOR is set), always or never")
}

// PaintTables decides whether tables are coloured, once the flags are known.
func (env *Env) PaintTables() { env.Output.Paint = env.paints(env.Out) }

// paints reports whether what is written to a stream is coloured.
func (env *Env) paints(stream any) output.Paint {
	switch forced := env.getenv("CLICOLOR_FORCE"); {
	case env.Color == colorAlways:
		return true
	case env.Color == colorNever, env.getenv("NO_COLOR") != "":
		return false
	case forced != "" && forced != "0":
		return true
	}
	return output.Paint(IsTerminal(stream) && env.getenv("TERM") != "dumb")
}

func (env *Env) getenv(name string) string {
	if env.Getenv == nil {
		return ""
	}
	return env.Getenv(name)
}
