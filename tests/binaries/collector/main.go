// A collector with exactly the components that the configurations in collector-config use, for tests.
//
// People run otelcol-contrib, which has these components among hundreds; this one builds in minutes, not in an hour.
// All components are the published ones but awss3, which stands in: see its package.
package main

import (
	"log"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/healthcheckextension"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/redactionprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/tailsamplingprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/transformprocessor"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/connector/forwardconnector"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/batchprocessor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"

	"otel-prompt-trace.example/tests/collector/awss3"
)

func must[T any](made T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return made
}

func factories() (otelcol.Factories, error) {
	return otelcol.Factories{
		Telemetry: otelconftelemetry.NewFactory(),
		Receivers: must(otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())),
		Processors: must(otelcol.MakeFactoryMap[processor.Factory](
			memorylimiterprocessor.NewFactory(),
			batchprocessor.NewFactory(),
			transformprocessor.NewFactory(),
			redactionprocessor.NewFactory(),
			tailsamplingprocessor.NewFactory(),
		)),
		Connectors: must(otelcol.MakeFactoryMap[connector.Factory](forwardconnector.NewFactory())),
		Exporters: must(otelcol.MakeFactoryMap[exporter.Factory](
			otlpexporter.NewFactory(),
			otlphttpexporter.NewFactory(),
			fileexporter.NewFactory(),
			awss3.NewFactory(),
		)),
		Extensions: must(otelcol.MakeFactoryMap[extension.Factory](
			healthcheckextension.NewFactory(),
			filestorage.NewFactory(),
		)),
	}, nil
}

func main() {
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "otelcol", Description: "collector of the tests", Version: "0.161.0"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			ProviderFactories: []confmap.ProviderFactory{
				envprovider.NewFactory(),
				fileprovider.NewFactory(),
				yamlprovider.NewFactory(),
			},
		}},
	})
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}
