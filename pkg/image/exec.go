package image

import (
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
)

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
