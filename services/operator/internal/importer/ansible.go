package importer

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/services/operator/internal/ansible"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/inventory"
)

const ansibleLong = `Read an inventory of Ansible and bring its hosts into the inventory as servers. INVENTORY
is a file in the INI or the YAML form, or what ansible-inventory --list prints; - is standard input. Files
beside it, such as group_vars, are not read: ansible-inventory --list has their values.

Each group that a host is in, directly or through other groups, becomes the label group.NAME=true; with
--env-group it becomes the host's environment instead. Variables become labels only when --var names them: most
say how to log in, and some are secrets. A host that is not known is invited with --invite, which writes a token
for each. A second import changes nothing; a label that was changed in Garrison since stays, with a note.`

// ansibleFlags are the flags of garrison import ansible.
type ansibleFlags struct {
	flags
	options ansible.Options
}

func ansibleCommand(env *cli.Env) *cobra.Command {
	f := &ansibleFlags{}
	c := &cobra.Command{
		Use:   "ansible INVENTORY",
		Short: "Import hosts and groups from an inventory of Ansible.",
		Long:  ansibleLong,
		Example: "  garrison import ansible hosts.ini --dry-run\n" +
			"  garrison import ansible hosts.yaml --invite ./tokens --env-group prod,test --var rack",
		Args:    cli.Exactly("INVENTORY"),
		PreRunE: cli.Prints(env, inventory.Listing),
		RunE: func(c *cobra.Command, a []string) error {
			if err := cli.CheckFile(a[0], "the path of an inventory: garrison import ansible --help"); err != nil {
				return err
			}
			return f.run(c.Context(), env, a[0])
		},
	}
	f.add(c, "ansible")
	cli.NamesVar(c.Flags(), &f.options.Environments, "env-group", cli.Name("environment"),
		"make these `GROUPS` the environments of their hosts; repeatable")
	cli.NamesVar(c.Flags(), &f.options.Variables, "var", cli.NotEmpty("variable"),
		"make these `VARIABLES` labels; repeatable")
	return c
}

func (f *ansibleFlags) run(ctx context.Context, env *cli.Env, name string) error {
	file, err := readInventory(env, name)
	if err != nil {
		return err
	}
	found, err := ansible.Read(file)
	if err != nil {
		return err
	}
	o := f.options
	o.Owner, o.File, o.Environment = f.owner, file.Name, f.environment
	set, skipped, err := found.Objects(o)
	if err != nil {
		return err
	}
	live, err := inventory.Read(ctx, env, declare.Environments, declare.Servers)
	if err != nil {
		return err
	}
	return f.flags.run(ctx, env, set, live, func(plan *declare.Plan) {
		plan.Skipped = append(plan.Skipped, skipped...)
		plan.Shown = append(plan.Shown, found.Notes()...)
	})
}

// readInventory reads a file, or standard input for -.
func readInventory(env *cli.Env, name string) (declare.File, error) {
	data, err := env.ReadInput(name, declare.MaxFile+1)
	if name == "-" {
		name = "standard input"
	}
	return declare.File{Name: name, Data: data}, err
}
