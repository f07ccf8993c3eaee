package docs

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert/yaml"
	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
)

// deployed reads a file of the folder deploy.
func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", name))
	require.NoError(t, err)
	return string(text)
}

// TestDeployFiles finds no file in the folder that no test here reads.
func TestDeployFiles(t *testing.T) {
	files, err := os.ReadDir(filepath.Join(root, "deploy"))
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	require.Equal(t, []string{"Dockerfile", "colligo-rank@.service", "colligo-store.service", "job.sbatch", "jobset.yaml", "pytorchjob.yaml",
		"statefulset.yaml"}, names)
}

// instruction is a line of a Dockerfile.
type instruction struct{ verb, rest string }

func instructions(text string) (all []instruction) {
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			verb, rest, _ := strings.Cut(line, " ")
			all = append(all, instruction{verb, strings.TrimSpace(rest)})
		}
	}
	return all
}

// TestDockerfile runs what the Dockerfile runs: the programs are static, and they are what the empty image starts.
func TestDockerfile(t *testing.T) {
	all := instructions(deployed(t, "Dockerfile"))
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	needs := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)[1]
	out, copied, env := t.TempDir(), map[string]bool{}, os.Environ()
	arguments := map[string]string{}
	var entry, command []string
	var from string
	for _, i := range all {
		switch i.verb {
		case "FROM":
			if from == "" {
				require.Equal(t, "golang:"+string(needs)+" AS build", i.rest)
			}
			from = i.rest
		case "ARG":
			name, value, _ := strings.Cut(i.rest, "=")
			arguments["$"+name] = value
		case "ENV":
			env = append(env, i.rest)
		case "RUN":
			require.NotEqual(t, "scratch", from, "nothing runs in an empty image")
			args := strings.Fields(i.rest)
			for n, a := range args {
				if value, ok := arguments[a]; ok {
					args[n] = value
				}
				args[n] = strings.Replace(args[n], "/out/", out+"/", 1)
			}
			require.Equal(t, []string{"go", "build"}, args[:2])
			build := exec.Command(args[0], append([]string{"build", "-buildvcs=false"}, args[2:]...)...)
			build.Dir, build.Env = root, env
			said, err := build.CombinedOutput()
			require.NoError(t, err, "%s", said)
		case "COPY":
			if rest, ok := strings.CutPrefix(i.rest, "--from=build /out/"); ok {
				name, to, _ := strings.Cut(rest, " ")
				requireStatic(t, filepath.Join(out, name))
				copied[to] = true
			} else {
				require.Equal(t, ". .", i.rest)
			}
		case "ENTRYPOINT":
			require.NoError(t, json.Unmarshal([]byte(i.rest), &entry), "an empty image has no shell")
		case "CMD":
			require.NoError(t, json.Unmarshal([]byte(i.rest), &command), "an empty image has no shell")
		case "WORKDIR", "USER":
		default:
			t.Errorf("instruction %s is not known here", i.verb)
		}
	}
	require.Equal(t, "scratch", from)
	require.Equal(t, []string{"/colligo"}, entry)
	require.True(t, copied[entry[0]])
	require.True(t, copied[command[len(command)-1]])
	command[len(command)-1] = filepath.Join(out, "program")
	said, err := exec.Command(filepath.Join(out, "colligo"), command...).CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), "rank 3 of 4: sum [10]")
}

// requireStatic looks for a program that needs no dynamic linker.
func requireStatic(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Skip("this system has other programs than Linux")
	}
	defer f.Close()
	for _, p := range f.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type, path)
	}
}

// manifests reads the documents of a YAML file, each into a value that has all of its fields.
func manifests(t *testing.T, name string, into ...any) {
	t.Helper()
	documents := strings.Split(deployed(t, name), "\n---\n")
	require.Len(t, documents, len(into))
	for i, text := range documents {
		var any any
		require.NoError(t, yaml.Unmarshal([]byte(text), &any), name)
		b, err := json.Marshal(any)
		require.NoError(t, err, name)
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(into[i]), name)
	}
}

// The parts of Kubernetes' objects that the manifests use, by Kubernetes' names.
type (
	meta struct {
		Name   string
		Labels map[string]string
	}
	header struct {
		APIVersion, Kind string
		Metadata         meta
	}
	envVar struct {
		Name, Value string
		ValueFrom   *struct{ FieldRef struct{ FieldPath string } }
	}
	container struct {
		Name, Image string
		Command     []string
		Ports       []struct{ ContainerPort int }
		Env         []envVar
	}
	pod struct {
		Metadata meta
		Spec     struct {
			RestartPolicy string
			Containers    []container
		}
	}
)

// ranksOf starts as many processes as a manifest says, with its environment. Only the name of the host differs.
func ranksOf(t *testing.T, c container, index string, size int, host string) {
	t.Helper()
	require.Equal(t, []string{"/program"}, c.Command)
	var env []string
	for _, v := range c.Env {
		switch v.Name {
		case "RANK":
			require.Empty(t, v.Value)
			require.Equal(t, index, v.ValueFrom.FieldRef.FieldPath)
		case "MASTER_ADDR":
			require.Equal(t, host, v.Value)
		case "MASTER_PORT":
			require.Equal(t, strconv.Itoa(c.Ports[0].ContainerPort), v.Value)
		case "WORLD_SIZE":
			require.Equal(t, strconv.Itoa(size), v.Value)
			env = append(env, v.Name+"="+v.Value)
		default:
			t.Errorf("variable %s", v.Name)
		}
	}
	require.Len(t, c.Env, 4)
	program := filepath.Join(built(t), "hello")
	port := freeport.Port(t, "127.0.0.1")
	outs, errs := make([]string, size), make([]error, size)
	var ranks sync.WaitGroup
	for rank := range size {
		ranks.Go(func() {
			cmd := exec.CommandContext(t.Context(), program)
			cmd.Env = append(append(os.Environ(), env...), fmt.Sprint("RANK=", rank), "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port)
			b, err := cmd.CombinedOutput()
			outs[rank], errs[rank] = string(b), err
		})
	}
	ranks.Wait()
	for rank := range size {
		require.NoError(t, errs[rank], outs[rank])
		require.Contains(t, outs[rank], fmt.Sprintf("rank %d of %d: sum [%d]\n", rank, size, size*(size+1)/2))
	}
}

// TestPyTorchJob holds the manifest to what the operator asks for.
func TestPyTorchJob(t *testing.T) {
	var job struct {
		header
		Spec struct {
			PytorchReplicaSpecs map[string]struct {
				Replicas      int
				RestartPolicy string
				Template      pod
			}
		}
	}
	manifests(t, "pytorchjob.yaml", &job)
	require.Equal(t, "kubeflow.org/v1 PyTorchJob", job.APIVersion+" "+job.Kind)
	specs := job.Spec.PytorchReplicaSpecs
	require.Len(t, specs, 2)
	require.Equal(t, 1, specs["Master"].Replicas, "rank 0 is one")
	require.Positive(t, specs["Worker"].Replicas)
	for kind, s := range specs {
		require.Equal(t, "Never", s.RestartPolicy, "a rank that has come back is in no group")
		require.Len(t, s.Template.Spec.Containers, 1)
		c := s.Template.Spec.Containers[0]
		require.Equal(t, "pytorch", c.Name, "%s: the operator gives the environment to this container alone", kind)
		require.Equal(t, []string{"/program"}, c.Command)
		require.Empty(t, c.Env, "the operator sets all")
	}
}

// TestJobSet starts the ranks of the manifest.
func TestJobSet(t *testing.T) {
	var set struct {
		header
		Spec struct {
			FailurePolicy  struct{ MaxRestarts int }
			ReplicatedJobs []struct {
				Name     string
				Replicas int
				Template struct {
					Spec struct {
						Parallelism, Completions, BackoffLimit int
						CompletionMode                         string
						Template                               pod
					}
				}
			}
		}
	}
	manifests(t, "jobset.yaml", &set)
	require.Equal(t, "jobset.x-k8s.io/v1alpha2 JobSet", set.APIVersion+" "+set.Kind)
	require.Len(t, set.Spec.ReplicatedJobs, 1)
	job := set.Spec.ReplicatedJobs[0]
	require.Equal(t, 1, job.Replicas, "the index counts the pods of one job")
	s := job.Template.Spec
	require.Equal(t, "Indexed", s.CompletionMode)
	require.Equal(t, s.Parallelism, s.Completions, "all ranks run at once")
	require.Zero(t, s.BackoffLimit, "a rank alone cannot come back")
	require.Equal(t, "Never", s.Template.Spec.RestartPolicy)
	host := fmt.Sprintf("%s-%s-0-0.%[1]s", set.Metadata.Name, job.Name)
	ranksOf(t, s.Template.Spec.Containers[0], "metadata.annotations['batch.kubernetes.io/job-completion-index']", s.Parallelism, host)
}

// TestStatefulSet starts the ranks of the manifest.
func TestStatefulSet(t *testing.T) {
	var service struct {
		header
		Spec struct {
			ClusterIP                string
			PublishNotReadyAddresses bool
			Selector                 map[string]string
			Ports                    []struct {
				Name string
				Port int
			}
		}
	}
	var set struct {
		header
		Spec struct {
			ServiceName, PodManagementPolicy string
			Replicas                         int
			Selector                         struct{ MatchLabels map[string]string }
			Template                         pod
		}
	}
	manifests(t, "statefulset.yaml", &service, &set)
	require.Equal(t, "v1 Service", service.APIVersion+" "+service.Kind)
	require.Equal(t, "None", service.Spec.ClusterIP, "each pod has a name")
	require.True(t, service.Spec.PublishNotReadyAddresses, "ranks look for each other before they are ready")
	require.Equal(t, "apps/v1 StatefulSet", set.APIVersion+" "+set.Kind)
	require.Equal(t, "Parallel", set.Spec.PodManagementPolicy, "rank 0 waits for rank 1")
	require.Equal(t, service.Metadata.Name, set.Spec.ServiceName)
	require.Equal(t, service.Spec.Selector, set.Spec.Selector.MatchLabels)
	require.Equal(t, service.Spec.Selector, set.Spec.Template.Metadata.Labels)
	c := set.Spec.Template.Spec.Containers[0]
	require.Equal(t, service.Spec.Ports[0].Port, c.Ports[0].ContainerPort)
	host := fmt.Sprintf("%s-0.%s", set.Metadata.Name, service.Metadata.Name)
	ranksOf(t, c, "metadata.labels['apps.kubernetes.io/pod-index']", set.Spec.Replicas, host)
}

// slurmOptions are those of sbatch that the script may use, with the form of their values.
var slurmOptions = map[string]*regexp.Regexp{
	"job-name": regexp.MustCompile(`^\w+$`), "nodes": regexp.MustCompile(`^\d+$`), "ntasks-per-node": regexp.MustCompile(`^\d+$`),
	"gpus-per-node": regexp.MustCompile(`^\d+$`), "time": regexp.MustCompile(`^\d\d:\d\d:\d\d$`), "output": regexp.MustCompile(`^[\w%.-]+$`),
}

// TestSbatch parses the script as sbatch does, runs its shell with another srun, and knows its variables.
func TestSbatch(t *testing.T) {
	text := deployed(t, "job.sbatch")
	require.True(t, strings.HasPrefix(text, "#!/bin/bash\n"))
	head, commands := true, 0
	for line := range strings.Lines(text) {
		option, isOption := strings.CutPrefix(line, "#SBATCH ")
		switch {
		case isOption:
			require.True(t, head, "sbatch reads no option behind the first command: %s", line)
			name, value, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(option, "--")), "=")
			require.Contains(t, slurmOptions, name)
			require.Regexp(t, slurmOptions[name], value)
		case !strings.HasPrefix(line, "#"):
			head = false
			commands++
		}
	}
	require.Positive(t, commands)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "srun"), []byte("#!/bin/bash\necho srun \"$@\"\nenv | grep COLLIGO_\n"), 0o755))
	script := exec.Command(bash, "-u", "-s")
	script.Stdin = strings.NewReader(text)
	script.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "SLURM_SUBMIT_DIR=" + dir, "SLURM_JOB_ID=7"}
	said, err := script.CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), "srun --kill-on-bad-exit=1 ./program\n")
	require.Contains(t, string(said), "COLLIGO_FR_DUMP_TEMP_FILE="+dir+"/job-7/rank_\n")
	require.DirExists(t, filepath.Join(dir, "job-7"))
	settings := settingsText(t)
	for _, name := range regexp.MustCompile(`COLLIGO_\w+`).FindAllString(text, -1) {
		require.Contains(t, settings, name)
	}
}

// unitKeys are those of systemd that the units may use.
var unitKeys = map[string][]string{
	"Unit":    {"Description", "Wants", "After"},
	"Service": {"ExecStart", "DynamicUser", "Restart", "NoNewPrivileges", "ProtectSystem", "ProtectHome", "EnvironmentFile", "Environment", "LimitNOFILE", "TimeoutStopSec"},
	"Install": {"WantedBy"},
}

// unit reads a unit of systemd.
func unit(t *testing.T, name string) map[string]string {
	t.Helper()
	found, section := map[string]string{}, ""
	for line := range strings.Lines(deployed(t, name)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
			require.Contains(t, unitKeys, section, name)
		default:
			key, value, isPair := strings.Cut(line, "=")
			require.True(t, isPair && value != "", "%s: %s", name, line)
			require.True(t, slices.Contains(unitKeys[section], key), "%s: %s in %s", name, key, section)
			found[key] = value
		}
	}
	return found
}

// TestUnits parses the units of systemd, and has colligo parse the command of the store.
func TestUnits(t *testing.T) {
	c := checker{bin: built(t), seen: map[string]bool{}}
	command := strings.Fields(unit(t, "colligo-store.service")["ExecStart"])
	require.Equal(t, "/usr/local/bin/colligo", command[0])
	require.NoError(t, c.ours("colligo", command[1:]))
	rank := unit(t, "colligo-rank@.service")
	require.Contains(t, rank["Environment"], "RANK=%i")
	require.Contains(t, rank["Environment"], "TORCHELASTIC_USE_AGENT_STORE=True", "no rank serves a store of its own")
	require.Equal(t, "no", rank["Restart"], "a rank that has come back is in no group")
}

// settingsText is what colligo settings prints.
func settingsText(t *testing.T) string {
	t.Helper()
	text, err := exec.Command(filepath.Join(built(t), "colligo"), "settings").Output()
	require.NoError(t, err)
	return string(text)
}
