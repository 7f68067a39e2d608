// Calls a function by name from Node: npm install @grpc/grpc-js @grpc/proto-loader
//   node call.js 127.0.0.1:8500 identity 1 2.5
const path = require('path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const [target, name, ...numbers] = process.argv.slice(2);
const proto = path.join(__dirname, '../../../proto');
const { formwork } = grpc.loadPackageDefinition(
    loader.loadSync('formwork/v1/graph_service.proto', { includeDirs: [proto] }));
const client = new formwork.v1.GraphService(target, grpc.credentials.createInsecure());

const content = Buffer.from(Float32Array.from(numbers).buffer);
const tensor = { dtype: 'DT_FLOAT', dims: [numbers.length], content };
client.call({ functionName: name, inputs: [{ tensor }] },
            { deadline: Date.now() + 10000 }, (error, answer) => {
  if (error) {
    console.error(error.message);  // The rest: error.metadata.get('grpc-status-details-bin')
    process.exit(1);
  }
  const y = answer.outputs[0].tensor.content;
  for (let i = 0; i + 4 <= y.length; i += 4) console.log(y.readFloatLE(i));
});
