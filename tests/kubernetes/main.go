// Reads manifests on standard input as the API server reads them with strict validation: a field
// that it does not know, or one that is there twice, is an error. Pods and pod templates are also
// held against a level of PodSecurity by the code of the admission itself.
// Says `KIND NAME: fault` for each fault and ends with 1 if there is any.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// The pod that an object makes, if it makes any.
func podOf(object runtime.Object) (*meta.ObjectMeta, *core.PodSpec) {
	switch made := object.(type) {
	case *core.Pod:
		return &made.ObjectMeta, &made.Spec
	case *apps.Deployment:
		return &made.Spec.Template.ObjectMeta, &made.Spec.Template.Spec
	case *apps.StatefulSet:
		return &made.Spec.Template.ObjectMeta, &made.Spec.Template.Spec
	case *apps.DaemonSet:
		return &made.Spec.Template.ObjectMeta, &made.Spec.Template.Spec
	case *batch.Job:
		return &made.Spec.Template.ObjectMeta, &made.Spec.Template.Spec
	}
	return nil, nil
}

func main() {
	level := api.LevelRestricted
	if len(os.Args) > 1 {
		level = api.Level(os.Args[1])
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
	documents := yaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	read, faults := 0, 0
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		read++
		object, kind, err := decoder.Decode(document, nil, nil)
		if err != nil {
			faults++
			fmt.Printf("document %d (%v): %v\n", read, kind, err)
			continue
		}
		metadata, spec := podOf(object)
		if spec == nil {
			continue
		}
		name := object.(meta.Object).GetName()
		latest := api.LevelVersion{Level: level, Version: api.LatestVersion()}
		for _, result := range evaluator.EvaluatePod(latest, metadata, spec) {
			if !result.Allowed {
				faults++
				fmt.Printf("%s %s: PodSecurity %s: %s: %s\n", kind.Kind, name, level,
					result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
	}
	if read == 0 {
		fmt.Println("no manifest was read")
	}
	if faults > 0 || read == 0 {
		os.Exit(1)
	}
}
